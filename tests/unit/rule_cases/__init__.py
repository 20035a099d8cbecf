"""The cases of the audit's rules: a wheel that a rule finds something in, and the most similar one without it."""

from rule_cases import device, plain, platform, processes, providers, rocm, windows

CASES = {
    **plain.CASES,
    **device.CASES,
    **platform.CASES,
    **processes.CASES,
    **providers.CASES,
    **rocm.CASES,
    **windows.CASES,
}
