"""The file tools of an agent that runs inside this process."""
