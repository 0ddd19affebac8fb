"""Temporal, for the comparison: crash in an effect, retry, replay of changed code and of a changed history. See README.md."""

import asyncio
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

from temporalio import activity, workflow
from temporalio.client import Client, WorkflowFailureError, WorkflowHistory
from temporalio.common import RetryPolicy
from temporalio.worker import Replayer, Worker

LEDGER, HISTORY = Path("ledger.txt"), Path("history.json")
CHANGE = sys.argv[2] if len(sys.argv) > 2 else ""
ATTEMPTS = 1 if CHANGE == "once" else 0  # 0: as many as it takes


def note(order):
    with LEDGER.open("a") as file:
        file.write(f"paid {order}\n")


@activity.defn
async def choose(prompt: str) -> str:
    return "A-1"


@activity.defn
async def pay(order: str) -> str:
    note(order)
    if sys.argv[1] == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    return f"paid {order}"


@activity.defn
async def other(order: str) -> str:
    return f"other {order}"


@workflow.defn(sandboxed=False)
class Agent:
    @workflow.run
    async def run(self, prompt: str) -> str:
        prompt = f"{prompt}, another prompt" if CHANGE == "changed-argument" else prompt
        order = await self.call(choose, prompt)
        return await self.call(other if CHANGE == "changed-step" else pay, order)

    async def call(self, function, value):
        return await workflow.execute_activity(
            function,
            value,
            start_to_close_timeout=timedelta(seconds=3),
            retry_policy=RetryPolicy(maximum_attempts=ATTEMPTS),
        )


async def drive():
    client = await Client.connect("127.0.0.1:7233")
    async with Worker(client, task_queue="peer", workflows=[Agent], activities=[choose, pay, other]):
        if sys.argv[1] == "crash":
            handle = await client.start_workflow(
                Agent.run, "first order", id=CHANGE or "1", task_queue="peer"
            )
        else:
            handle = client.get_workflow_handle(CHANGE or "1")
        try:
            print(await handle.result())
        except WorkflowFailureError as error:
            print(type(error).__name__, error.cause, "|", error.cause.cause)
    print(LEDGER.read_text().split("\n")[:-1])
    HISTORY.write_text((await handle.fetch_history()).to_json())


async def replay():
    text = HISTORY.read_text()
    if CHANGE == "changed-history":
        text = text.replace("IkEtMSI=", "IkItOSI=")  # "A-1" and "B-9" in base64
    result = await Replayer(workflows=[Agent]).replay_workflow(
        WorkflowHistory.from_json("1", text), raise_on_replay_failure=False
    )
    print(CHANGE or "unchanged", "->", str(result.replay_failure or "no difference")[:250])


if __name__ == "__main__":
    asyncio.run(replay() if sys.argv[1] == "replay" else drive())
