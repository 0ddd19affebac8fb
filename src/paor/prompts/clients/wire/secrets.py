"""Keys do not get out: every text that leaves a model client goes through a `Scrubber`."""

from __future__ import annotations

from ....states.base.secrets import LENGTH_MIN, REDACTED, Scrubber, StreamScrubber

__all__ = ["LENGTH_MIN", "REDACTED", "Scrubber", "StreamScrubber"]
