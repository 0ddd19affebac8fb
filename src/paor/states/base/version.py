"""The version of paor; the one place where it is in code."""

VERSION = "0.1.0"
