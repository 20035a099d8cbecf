"""What the step programs are asked to do: one frozen value each, made by the plan and read from a file by the step."""
