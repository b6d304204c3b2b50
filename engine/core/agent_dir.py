"""Where Pi keeps what belongs to its user: logins, models, trusted projects, definitions."""

from collections.abc import Mapping


def agent_dir(environment: Mapping[str, str]) -> str | None:
    """Return the path of the Pi agent directory of the user that `environment` describes.

    It is found as Pi finds it, so a relative one starts from where the process stands. None when
    the environment names neither the folder nor a home. Nobody has looked whether it is there.
    """
    home = environment.get("HOME")
    stated = environment.get("PI_CODING_AGENT_DIR")
    if not stated:
        return f"{home}/.pi/agent" if home else None
    if stated == "~" or stated.startswith("~/"):
        return f"{home}{stated[1:]}" if home else None
    return stated
