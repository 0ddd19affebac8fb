"""Pictures: what is shown to a model that takes them, what is said to any other, and what a journal needs of them."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from fpdf import FPDF

from paor import Engine, Journal, Limits, ModelCall, Reply, ToolOutput, replay, tool
from paor.models import Picture, PromptMessage
from paor.prompts.model import shown_to
from paor.tools.tool import Document

from ..support.model_server import WIRES, ModelServer, Wire, model_server, plain
from .inside import NOT_SHOWN, AttemptFault, refused
from .test_native_wire import turn

PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
OTHER = PNG[:-1] + b"\0"
TOOLS: dict[str, object] = {"/v1/models": {"data": [{"id": "any", "supported_parameters": ["tools"]}]}}
each_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)


@tool("camera.shot", effect="read")
def shot() -> ToolOutput:
    """Take a picture."""
    return ToolOutput(documents=[Document("shot.png", OTHER, "image/png")])


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Return a server whose model calls tools."""
    with model_server() as running:
        running.says = TOOLS
        yield running


def pictures_in(wire: Wire, body: dict[str, Any]) -> list[tuple[str, bytes]]:
    """Return the pictures of a request as its interface documents them: in whose message each is, and its bytes."""
    found = []
    for message in body["input" if wire.name == "responses" else "messages"]:
        for part in message["content"] if isinstance(message.get("content"), list) else ():
            inner = part["content"] if part.get("type") == "tool_result" else [part]
            for one in inner if isinstance(inner, list) else ():
                where = "result" if part.get("type") == "tool_result" else message["role"]
                if one["type"] == "image":
                    assert one["source"]["type"] == "base64" and one["source"]["media_type"] == "image/png"
                    found.append((where, b64decode(one["source"]["data"])))
                elif one["type"] in ("image_url", "input_image"):
                    url = one["image_url"]["url"] if one["type"] == "image_url" else one["image_url"]
                    assert url.startswith("data:image/png;base64,")
                    found.append((where, b64decode(url.partition(",")[2])))
    return found


@each_wire
def test_documents_and_results_that_are_pictures_are_shown(wire: Wire, server: ModelServer) -> None:
    """In the form of each interface, at the same place in every request; a replay compares the run without any picture."""
    server.script(turn(wire, [("camera_shot", "{}")], stream=False), plain(wire.body("Two dots.")))
    with Engine(model=wire.model(server.url, stream=False), journal=":memory:", tools=[shot]) as engine:
        result = engine.run("What is there?", documents=[("photo.png", PNG)])
        assert (result.state, result.answer) == ("Done", "Two dots.")
        first, last = (pictures_in(wire, received.body) for received in server.requests[:2])
        assert first == [("user", PNG)]
        assert last == [("user", PNG), ("result" if wire.name == "messages" else "user", OTHER)]
        assert replay(engine.journal, result.run_id, engine).identical
        for document in result.documents:
            assert document.read() in (PNG, OTHER)
    told = json.dumps(server.requests[1].body)
    assert "shot.png: image/png" in told and "not text" not in told and NOT_SHOWN not in told


REFUSALS = (
    (400, "Invalid content type. image_url is only supported by certain models."),
    (400, "At most 0 image(s) may be provided in one prompt."),
    (400, "gpt-oss is not a multimodal model"),
    (400, "messages[1].content must be a string"),
    (422, "Failed to deserialize: messages[1]: unknown variant `image_url`, expected `text`"),
    (500, "image input is not supported - hint: you may need to provide the mmproj"),
    (400, "This model cannot process images."),
    (400, "Invalid request: images are not supported by this model (bad format of messages[1])"),
    (400, "Image processing is not supported for this model"),
    (422, "The model does not support processing image content"),
    (400, "This model cannot process any images"),
    (400, "Sorry, I can't process images"),
)


@pytest.mark.parametrize(("status", "words"), REFUSALS)
def test_how_servers_refuse_pictures_is_understood(status: int, words: str) -> None:
    """Whatever else was sent; where no picture was, these words are about something else."""
    fault = AttemptFault("bad_request", words, False, status=status)
    sent = {"pictures", "structure", "temperature", "system", "parts"}
    found = refused(fault, sent, max_tokens=100)
    assert found is not None and found.feature == "pictures" and found.scope == "server"
    assert refused(fault, set(), max_tokens=100) is None


@pytest.mark.parametrize(
    "words",
    [
        "Could not process image",
        "messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels",
        "image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes",
        "Invalid image data: the image is truncated.",
        "You uploaded an unsupported image. Please make sure your image is of a supported format.",
        "Image does not match the provided media type image/jpeg",
        "The server does not support image format image/tiff",
        "image format is not supported; images of at most 20 MB are processed",
        "Failed to process images: image 2 is corrupt",
        "Error processing images: the image exceeds 5 MB",
        "Unable to process images larger than 20 MB",
        "The API does not support images exceeding 20 MB",
        "The API does not support images above 20 MB",
        "The API does not support image files larger than 5 MB",
        "HEIC images are not supported: invalid image format",
        "The server does not support image media type image/bmp",
    ],
)
@pytest.mark.parametrize("status", [400, 500])
def test_what_is_said_of_one_picture_is_no_word_on_the_next(words: str, status: int) -> None:
    found = refused(AttemptFault("bad_request", words, False, status=status), {"pictures"}, max_tokens=100)
    assert found is not None and (found.feature, found.scope) == ("pictures", "request")


@each_wire
def test_a_picture_that_a_server_cannot_read_leaves_the_next_one(wire: Wire, server: ModelServer) -> None:
    no = plain(wire.error("Could not process image"), status=400)
    server.script(no, plain(wire.body("I cannot see it.")), plain(wire.body("A dot.")))
    with Engine(model=wire.model(server.url, stream=False), journal=":memory:", tools=[shot]) as engine:
        engine.run("What is there?", documents=[("photo.png", PNG[:40])])
        engine.run("And here?", documents=[("photo.png", PNG)])
    assert [len(pictures_in(wire, received.body)) for received in server.requests] == [1, 0, 1]


@each_wire
def test_a_server_that_takes_no_pictures_is_asked_once(wire: Wire, server: ModelServer) -> None:
    """The model is told that there is one, and no later request to that server has any."""
    no = plain(wire.error("This model does not support image input."), status=400)
    server.script(no, plain(wire.body("I cannot see it.")))
    with Engine(model=wire.model(server.url, stream=False), journal=":memory:", tools=[shot]) as engine:
        result = engine.run("What is there?", documents=[("photo.png", PNG)])
        assert (result.state, result.answer) == ("Done", "I cannot see it.")
        engine.run("And here?", documents=[("photo.png", PNG)])
    assert [len(pictures_in(wire, received.body)) for received in server.requests] == [1, 0, 0]
    assert all(NOT_SHOWN in json.dumps(received.body) for received in server.requests[1:])


def test_a_server_that_says_what_its_model_takes_is_believed(server: ModelServer) -> None:
    """Nothing is sent to find it out."""
    cases: tuple[tuple[dict[str, object], bool | None], ...] = (
        ({"/v1/models": {"data": [{"id": "m", "capabilities": {"vision": False}}]}}, False),
        ({"/props": {"modalities": {"vision": False}, "chat_template_caps": {"supports_tool_calls": True}}}, False),
        ({"/props": {"modalities": {"vision": True}, "chat_template_caps": {"supports_tool_calls": True}}}, True),
        ({"/v1/models": {"data": [{"id": "m", "supported_parameters": ["tools"],
            "architecture": {"input_modalities": ["text"]}}]}}, False),
        (TOOLS, None),
    )  # fmt: skip
    for says, sees in cases:
        server.says = says
        wire = WIRES[0]
        server.script(plain(wire.body("Yes.")))
        model = wire.model(server.url.replace("127.0.0.1", "localhost"), client=None)
        model._is_own = False
        model.look()
        assert model.takes_pictures is sees, says


class Viewer:
    """A model of a host's own that writes down what it was shown."""

    name = "viewer"

    def __init__(self, *replies: str, sees: object = True) -> None:
        self.replies, self.calls = list(replies), list[ModelCall]()
        self.takes_pictures = sees

    def ask(self, call: ModelCall) -> Reply:
        """Give the next reply."""
        self.calls.append(call)
        return Reply(self.replies.pop(0))

    @property
    def shown(self) -> list[bytes]:
        """Every picture of its last request."""
        return [picture.data for message in self.calls[-1].messages for picture in message.pictures]


def process(*references: str, name: str = "ai.process", **more: object) -> list[str]:
    """Return the replies of a run in turns that calls a tool once, which asks for a text."""
    given = {"documentList": list(references), "aiPrompt": "What is there?", **more}
    call = {"text": "", "calls": [{"id": "c1", "name": name.replace(".", "_"), "arguments": given}]}
    return [json.dumps(call), "A dot.", "It is a dot."]


def run(model: Viewer, documents: Sequence[tuple[str, bytes]], **options: Any) -> tuple[Any, bool]:
    """Return what a run came to, and whether it replays."""
    with Engine(model=model, journal=Journal(":memory:"), profile="native", **options) as engine:
        result = engine.run("Look", documents=documents)
        return result, replay(engine.journal, result.run_id, engine).identical


INPUT = "docItem:round1_task1_action0_input#0"


def test_a_tools_own_request_shows_pictures_and_keeps_their_digests() -> None:
    """The prompt of the request is in the journal with the digest of what was shown."""
    model = Viewer(*process(INPUT))
    result, ok = run(model, [("photo.png", PNG), ("note.txt", b"x" * 200_000)])
    assert result.state == "Done" and ok
    asked = model.calls[1]
    assert [picture.data for picture in asked.messages[-1].pictures] == [PNG]
    assert f"sha256 {hashlib.sha256(PNG).hexdigest()}" in asked.messages[-1].text


def scan(pages: int) -> bytes:
    """Return a PDF file whose pages are pictures."""
    paper = FPDF()
    for number in range(pages):
        paper.add_page()
        paper.rect(10, 10 + number, 50, 50, style="F")
    return bytes(paper.output())


@pytest.mark.parametrize(
    ("asks", "shown"),
    [
        ("What is there?", [1, 2, 3]),
        ("Read page 2.", [2]),
        ("Compare pages 9, 0 and 3", [3]),
        ("On pages 2-7?", [2, 3]),
    ],
    ids=["all", "one", "absent", "range"],
)
def test_pages_of_a_scan_are_shown_on_request(asks: str, shown: list[int]) -> None:
    """As PNG of a bounded size, made in the process that reads documents; the notes say which."""
    model = Viewer(*process(INPUT, name="document.extract", aiPrompt=asks))
    result, ok = run(model, [("scan.pdf", scan(3))])
    assert result.state == "Done" and ok
    pictures = model.calls[1].messages[-1].pictures
    assert len(pictures) == len(shown) and all(picture.mime == "image/png" for picture in pictures)
    sizes = [(int.from_bytes(one.data[16:20]), int.from_bytes(one.data[20:24])) for one in pictures]
    assert all(max(size) in (1568, 1569) for size in sizes)
    for number in shown:
        assert f"scan.pdf, page {number}: a picture" in model.calls[1].messages[-1].text
    assert (
        f"shown to the model as pictures, in shades of grey: {', '.join(map(str, shown))} of 3"
        in model.calls[2].messages[-1].text
    )


def test_one_call_shows_eight_pictures_and_names_the_rest() -> None:
    """Of all its documents together; a page that is not there, or that cannot be drawn, is named, and costs no other document."""
    two = f"{INPUT}", INPUT.replace("#0", "#1"), INPUT.replace("#0", "#2")
    model = Viewer(*process(*two, name="document.extract", aiPrompt="Compare pages 1-6 and 12"))
    result, ok = run(model, [("a.pdf", scan(9)), ("b.pdf", scan(5)), ("note.txt", b"Words.")])
    assert result.state == "Done" and ok
    assert len(model.calls[1].messages[-1].pictures) == 8
    told = model.calls[2].messages[-1].text
    for words in (
        "a.pdf: pages shown to the model as pictures, in shades of grey: 1, 2, 3, 4, 5, 6 of 9",
        "a.pdf: pages that it does not have: 12 of 9",
        "b.pdf: pages shown to the model as pictures, in shades of grey: 1, 2 of 5",
        "b.pdf: pages left out, since one call shows 8: 3, 4, 5 of 5",
    ):
        assert words in told, told


@pytest.mark.parametrize("sees", [False, "yes"])
def test_other_models_are_told_that_they_do_not_see_it(sees: object) -> None:
    """In the index of documents and in the result of a tool; no bytes are read for them."""
    call = {"text": "", "calls": [{"id": "c1", "name": "camera_shot", "arguments": {}}]}
    model = Viewer(json.dumps(call), "I cannot see it.", sees=sees)
    result, ok = run(model, [("photo.png", PNG)], tools=[shot])
    assert result.state == "Done" and ok and model.shown == []
    told = [message.text for message in model.calls[-1].messages]
    assert sum("a picture that you are not shown" in text for text in told) == 2
    assert not any(message.pictures for call in model.calls for message in call.messages)


@pytest.mark.parametrize("sees", [False, True])
def test_a_model_that_takes_no_pictures_is_shown_none_of_a_request_that_has_some(sees: bool) -> None:
    """As of a run that another model has begun."""
    (shown,) = shown_to(
        Viewer(sees=sees), [PromptMessage("user", "Look.", pictures=(Picture(data=PNG),))], lambda place: None
    )
    assert [one.data for one in shown.pictures] == [PNG] * sees and ("not shown" in shown.text) is not sees


def test_what_is_too_large_or_no_picture_is_not_shown() -> None:
    """A lie about the kind reaches no provider, which would refuse the whole request."""
    large = PNG + bytes(4_000_000)
    model = Viewer("Nothing.")
    result, ok = run(model, [("large.png", large)])
    assert result.state == "Done" and ok and model.shown == []

    @tool("camera.lie", effect="read")
    def lie() -> ToolOutput:
        """Say that it is a picture."""
        return ToolOutput(documents=[Document("lie.png", b"\0\1\2", "image/png")])

    call = {"text": "", "calls": [{"id": "c1", "name": "camera_lie", "arguments": {}}]}
    model = Viewer(json.dumps(call), "Nothing.")
    result, ok = run(model, [], tools=[lie])
    assert result.state == "Done" and ok and model.shown == []
    assert NOT_SHOWN in model.calls[-1].messages[-1].text


def test_as_many_pictures_are_shown_as_a_quarter_of_the_context_holds() -> None:
    """Each counts as 1,600 tokens; the index says which are left out."""
    model = Viewer("Many.")
    result, ok = run(
        model, [(f"{n}.png", PNG[:-1] + bytes([n])) for n in range(9)], limits=Limits(context_tokens=32_000)
    )
    assert result.state == "Done" and ok and len(model.shown) == 5
    assert model.calls[0].messages[-1].text.count("a picture that you are not shown") == 4
    assert b64encode(model.shown[0]) != b64encode(model.shown[1])
