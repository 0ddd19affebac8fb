"""`paor chat`: a conversation at the terminal, or with what comes on standard input, line by line."""

from __future__ import annotations

import re
import secrets
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from typing import Annotated, Any

from ...fsm.engine import Engine
from ...fsm.explain.why import why as explain
from ...fsm.journal.rows import RunRow
from ...fsm.lifecycle.arguments import offered_tools
from ...fsm.replay.callers import open_question
from ...fsm.runtime.result import Result
from ...states.base.errors import AlreadyAnswered, ConversationBusy, JournalError, PaorError, UsageError
from ...states.records.questions import Question
from ...states.run.labels import conversation_of
from ..support import terminal as io
from ..support.app import EngineOptions
from ..support.driving import Watch, code_of, facts_line, next_commands, question_lines
from ..support.inputs import RunInput, run_input
from ..support.json_input import TEXT_BYTES_MAX, answer_value, typed_answers
from ..support.options import Quiet, command, journal_flag
from .audit import explanation
from .resume import given_answer, login_name
from .run import ROUND, doubt_lines, one_text, with_policy_before
from .show import show_run

HELP = {
    "/show": "what the last round did, as paor show prints it",
    "/why [ROW]": "what decided its last row, or ROW, as paor why prints it",
    "/undo": "take the last round back: go on in a new conversation that branches off before it; the old one stays",
    "/help": "these lines",
}
HELP_NOTES = ("", "Ctrl-C cancels the round that runs; at the prompt Ctrl-C twice, or Ctrl-D, ends the chat.")
ENDED = ("done", "failed")
OFFLINE = (
    "paor: the offline model holds no conversation: it quotes sentences of documents and writes nothing of its own;"
    " to talk, give --model, such as openai:NAME"
)


@command(
    "paor chat",
    'paor chat "Where is order O-1004?" --app shop:engine',
    "paor chat --conversation c-17 --tools web.search --web",
    "paor chat --model script:replies.json < messages.txt",
)
def chat(
    words: Annotated[tuple[str, ...], "[MESSAGE]"],
    conversation: Annotated[
        str | None,
        "--conversation ID",
        "Your own name of the conversation, begun or continued; default: a new one.",
    ],
    flags: Annotated[dict[str, Any], ROUND],
    quiet: Quiet,
    options: EngineOptions,
) -> int:
    """
    Hold a conversation: each message is a run, which is told of those before.

    MESSAGE is the first one; the next ones are typed. What the model writes is shown as it comes, calls are lines that
    stay, and what a run asks is answered in place: yes or no for an approval. Ctrl-C cancels the round that runs; at the
    prompt, twice, it ends the chat, as Ctrl-D does. /help lists the commands.

    Without a terminal each line of standard input is a message, or the answer to what the round asks; calls are lines
    on standard error. --json prints each result as one line.

    Exit codes: at a terminal 0, or 5 with a question left open. Else that of the last round, as of paor run, and 2 for
    bad input, which ends the chat.
    """
    first = one_text(words, "MESSAGE")
    name = conversation_of(conversation) or f"chat-{secrets.token_hex(4)}"
    given = run_input(flags | {"objective": "chat"}, options)
    options = with_policy_before(given.engine, given.arguments | {"conversation": name})
    model, watch = given.arguments.get("model"), Watch(quiet=quiet, calls_only=True)
    hooks = () if quiet else (watch,)
    with (
        options.tools() as tools,
        options.driving(tools, durability=given.durability, model=model, hooks=hooks) as engine,
    ):
        offered_tools(
            {tool.name: tool for tool in engine.tools}, given.arguments["tools"]
        )  # said before all else
        watch.model = ((model or engine.model).name, given.model_source)
        return Chat(engine, given, options, watch, name, flags["model"]).hold(first)


class Chat:
    """A conversation that is held at a terminal, or with lines of standard input; *model* is the value of ``--model``."""

    def __init__(
        self,
        engine: Engine,
        given: RunInput,
        options: EngineOptions,
        watch: Watch,
        conversation: str,
        model: str | None,
    ) -> None:
        self._engine, self._options, self._watch = engine, options, watch
        self._journal, self._conversation, self._after = engine.journal, conversation, ""
        self._model = f" --model {shlex.quote(model)}" if model else ""
        self._interactive = sys.stdin.isatty() and sys.stdout.isatty()
        self._arguments = dict(given.arguments)
        self._limits = given.limits(engine.limits_of(self._arguments["mode"])) if given.bounds else None
        self._resume = partial(engine.resume, model=self._arguments.get("model"))
        self._documented = ""
        self._open: Result | None = None
        self._code = io.OK

    def hold(self, first: str | None) -> int:
        """Hold the conversation to its end and return the exit code."""
        with suppress(EOFError):
            if (left := self._begin()) is not None:
                with self._told():
                    self._settle(partial(self._resume, left))
            if first is not None:
                with self._told():
                    self._round(first)
            while (line := self._message()) is not None:
                with self._told():
                    if not self._is_command(line):
                        self._round(line)
        row = None if self._watch.quiet else self._last()
        if row is not None and row.conversation is not None:
            app = f" --app {shlex.quote(self._options.app)}" if self._options.app else ""
            flags = f"{shlex.quote(row.conversation)}{journal_flag(self._journal.path)}{app}{self._model}"
            io.tell(f"{io.styled('go on with:', 'dim')} paor chat --conversation {flags}")
        if self._open is not None:
            io.tell(*next_commands(self._open, self._journal, self._options, None))
            return io.WAITING
        return io.OK if self._interactive else self._code

    def _begin(self) -> str | None:
        """Say which conversation this is, and return the id of its last round if that has not ended."""
        model, row = self._arguments.get("model") or self._engine.model, self._last()
        rounds = [] if row is None else list(self._journal.conversation(self._conversation).runs)
        if self._interactive:
            with suppress(ImportError):  # what is not on every platform; the rest works without
                import readline

                for said in rounds:
                    if said.objective and said.objective.isprintable():
                        readline.add_history(said.objective)
        if not self._watch.quiet:
            far = f"{io.count(len(rounds), 'round')} so far" if rounds else "new"
            hint = "; /help lists the commands, Ctrl-D ends the chat" if self._interactive else ""
            io.tell(f"conversation: {self._conversation} ({far}){hint}")
            io.tell(*([OFFLINE] if model.name == "offline" else []))
        if row is None or row.status in ENDED:
            return None
        if row.driver is not None:
            raise ConversationBusy(self._conversation, row.run_id, row.status)
        return row.run_id

    def _last(self) -> RunRow | None:
        """Return the run that the next round follows, None before the first."""
        newest = self._journal.reader.newest_round(self._conversation) or self._after
        return self._journal.run(newest) if newest else None

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Tell an error and go on, where a person can try again; an error of the journal ends the chat."""
        try:
            yield
        except PaorError as error:
            if not self._interactive or isinstance(error, JournalError):
                raise
            io.tell_error(str(error))

    def _line(self, prompt: str) -> str:
        """Return the next line that is not blank; raise `EOFError` at the end of input."""
        while True:
            line = self._typed(prompt) if self._interactive else _input_line()
            if line.strip():
                return line

    def _typed(self, prompt: str) -> str:
        try:
            return input(prompt)
        except EOFError:
            io.tell("")
            raise

    def _message(self) -> str | None:
        """Return the next message or command, None when Ctrl-C was pressed twice; raise `EOFError` at the end of input."""
        for again in (False, True):
            try:
                return self._line("> ")
            except KeyboardInterrupt:
                if not self._interactive:
                    raise
                io.tell("", *([] if again else ["paor: Ctrl-C again, or Ctrl-D, ends the chat"]))
        return None

    def _is_command(self, line: str) -> bool:
        """Do what a line asks for that is a command; return whether it is one."""
        found = re.fullmatch(r"/([a-z]+)(?: +(\S*))?\s*", line)
        if found is None:
            return False
        name, argument = found[1], found[2] or ""
        if name == "help":
            io.say(*(f"{command:<12}{meaning}" for command, meaning in HELP.items()), *HELP_NOTES)
            return True
        if name not in ("show", "why", "undo") or (argument and name != "why"):
            known = f"no such command, there are {', '.join(HELP)}"
            raise UsageError(
                f"{line.strip()}: {known}; a message begins with a space if it has to begin with /"
            )
        if (row := self._last()) is None:
            raise UsageError(f"/{name}: there is no round yet")
        if name == "undo":
            self._undo(row)
        elif name == "show":
            show_run(self._journal, row)
        else:
            if argument and not argument.isdecimal():
                raise UsageError(f"/why {argument}: expected the number of a row, such as /why 2")
            found_why = explain(self._journal, row.run_id, int(argument) if argument else None)
            io.say_either(found_why.wire(), explanation(found_why))
        return True

    def _undo(self, row: RunRow) -> None:
        """Go on from before the last round, in a conversation of its own."""
        if row.status not in ENDED:
            raise UsageError("/undo: the round has not ended; answer what it asks, or cancel it with Ctrl-C")
        before = self._conversation
        self._after = self._journal.spec(row.run_id).follows
        self._documented = "" if self._documented == row.run_id else self._documented
        number, base = 2, re.sub(r"\+\d+$", "", before)
        while self._journal.reader.newest_round(self._conversation) is not None:
            self._conversation, number = f"{base}+{number}", number + 1
        io.tell(
            f"paor: the last round is taken back: this is now conversation {self._conversation}, a branch from before it;"
            f" {row.conversation or before} keeps it"
        )

    def _round(self, message: str) -> None:
        """Hold one round: start its run and follow it to its end."""
        arguments = self._arguments | {"objective": message, "conversation": self._conversation}
        arguments |= {"limits": self._limits, "after": self._after or None}
        if self._documented:
            arguments["documents"] = ()
        result = self._settle(partial(self._engine.run, **arguments))
        if result is not None:
            self._documented = self._documented or result.run_id

    def _settle(self, drive: Callable[[], Result]) -> Result | None:
        """Drive a round with what it asks answered in place, and print what came of it; None for one that was never written."""
        self._open = None
        result = self._driven(drive)
        while result is not None and result.waiting_for is not None:
            self._open = result
            result = self._answered(result, result.waiting_for)
        self._open = None
        if result is not None:
            self._code = code_of(result)
            if io.wants_json():
                io.say_json(result.wire(), compact=True)
            elif result.answer:
                io.say(*io.answer_lines(result.answer), *([""] if self._interactive else []))
            if result.status != "done":
                io.tell(*facts_line(result, self._journal))
        return result

    def _driven(self, drive: Callable[[], Result]) -> Result | None:
        """Drive a round with its progress shown; Ctrl-C at a terminal cancels it."""
        try:
            with self._watch.shown(), redirect_stdout(sys.stderr):
                return drive()
        except KeyboardInterrupt:
            return self._cancelled()

    def _cancelled(self) -> Result | None:
        """After Ctrl-C, cancel the round that runs or waits, None for none; say which call is in doubt."""
        if not self._interactive:
            raise KeyboardInterrupt
        row = self._last()
        io.tell("")
        if row is None or row.status in ENDED:
            io.tell("paor: interrupted; no round was running")
            return None
        io.tell(*doubt_lines(self._journal, row.run_id))
        result = self._engine.cancel(row.run_id)
        io.tell("paor: the round is cancelled; the chat goes on")
        return result

    def _answered(self, result: Result, question: Question) -> Result | None:
        """Ask what a round waits for, and go on with the answer; Ctrl-C cancels the round."""
        question = open_question(self._journal.reader, self._journal.run(result.run_id)) or question
        if io.wants_json():
            io.say_json(result.wire(), compact=True)
        else:
            io.say(*question_lines(question))
            io.tell(io.styled(f"answer with: {io.one_line(', '.join(typed_answers(question)))}", "dim"))
        given: dict[str, Any] | None = None
        while given is None:
            try:
                line = self._line("answer> ")
            except KeyboardInterrupt:
                return self._cancelled()
            with self._told():
                given = None if self._is_command(line) else typed_answer(line, question)
        resume = partial(self._resume, result.run_id)
        try:
            return self._driven(partial(resume, **given, question=question.id))
        except AlreadyAnswered as error:  # by another person, elsewhere
            io.tell_error(str(error))
            return self._driven(resume)


def _input_line() -> str:
    """Return the next line of standard input; raise `EOFError` at its end, and `UsageError` for what is too long or no text."""
    data = sys.stdin.buffer.readline(TEXT_BYTES_MAX + 1)
    if not data:
        raise EOFError
    if len(data) > TEXT_BYTES_MAX:
        raise UsageError(f"standard input: a line of more than {TEXT_BYTES_MAX:,} bytes")
    try:
        return data.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise UsageError("standard input is not UTF-8 text") from None


def typed_answer(line: str, question: Question) -> dict[str, Any]:
    """Return what a person has typed as `Engine.resume` takes it; raise `UsageError` when it does not answer the question."""
    if question.kind != "in_doubt":
        return {"answer": answer_value(line, question, ""), "actor": login_name()}
    word, _, returned = line.strip().partition(" ")
    if word not in ("done", "retry", "fail"):
        raise UsageError(f"{io.one_line(line)[:80]}: expected one of {', '.join(typed_answers(question))}")
    return given_answer(None, word, returned.strip() or None, None)
