"""Whether a function of the host is fit for a replay, read from its compiled code: `guard_code.impurities`; nothing of the host is called."""
