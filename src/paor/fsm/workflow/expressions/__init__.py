"""
The small language of conditions and templates in workflow files: parsed by a library, evaluated on JSON data, bounded.

May import `states.base`. Start with `evaluator`.
"""
