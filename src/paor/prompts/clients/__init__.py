"""
The clients of OpenAI, Anthropic and servers that speak their interfaces, each over the provider's own SDK.

Start at `client.RemoteModel`: attempts, waiting, budgets, prices. `connection` makes one attempt, sync or async; `openai`
and `anthropic` say what differs between the two SDKs; `wire` is the pure part.

May import `states`, the modules of `prompts` and its own room. The SDKs and their HTTP library (`httpx2`) come with the
extras ``openai`` and ``anthropic`` and are imported when a model is first asked. Import from the modules: what stands
here would load them all.
"""

__all__: list[str] = []
