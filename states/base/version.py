"""The version of paor; the one place where it stands in code."""

VERSION = "0.1.0"
