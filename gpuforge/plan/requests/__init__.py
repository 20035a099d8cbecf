"""The requests to the step programs: one frozen value each, made by the plan and read from a file by the step."""
