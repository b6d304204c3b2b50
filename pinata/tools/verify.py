"""The tool that proves a destination without changing it."""

from typing import Annotated

from pydantic import Field, SkipValidation

from engine.core.errors import UsageError
from engine.core.spec import CheckSpec
from engine.records.check import CheckRequest, decode_checks
from engine.records.fields import Many, NotNull, Text
from engine.records.request import Request
from pinata.tools.registry import Answer, RunPrefix, Tool, by_name
from pinata.work.context import Context
from pinata.work.lookup import look_up_run
from pinata.work.verification import verify_run


class VerifyRequest(Request):
    """Which run's destination to check, and with what."""

    run: RunPrefix
    checks: Annotated[
        Many[SkipValidation[CheckRequest]] | None,
        NotNull(),
        Field(
            description="an array of checks, each {id, argv, timeoutMs?}, for this call alone; "
            "the run's integratedChecks without it"
        ),
    ] = None
    no_checks_reason: Annotated[
        Text | None,
        NotNull(),
        Field(description="text that says why nothing is checked; only with checks: []"),
    ] = None


async def verify(context: Context, request: VerifyRequest) -> Answer:
    """Check the destination of a run and return the receipt."""
    checks = _own_checks(request)
    _, folder = await look_up_run(context, request.run)
    return await verify_run(
        context, folder, context.cwd, checks=checks, no_checks_reason=request.no_checks_reason
    )


def _own_checks(request: VerifyRequest) -> tuple[CheckSpec, ...] | None:
    """Return the checks of this call, None for the run's own.

    Raises:
        UsageError: nothing is to be checked and no reason is given, or the other way round.
    """
    checks = None if request.checks is None else decode_checks(request.checks, "checks")
    if checks == () and request.no_checks_reason is None:
        raise UsageError("noChecksReason is missing: say why `checks` is empty, or give checks")
    if checks != () and request.no_checks_reason is not None:
        raise UsageError("noChecksReason: goes with `checks: []` alone: leave one of them out")
    return checks


_VERIFY = Tool(
    name="pinata_verify",
    description=(
        "Check the checkout that a run was started from, without applying anything: runs the run's "
        "`integratedChecks`, or the `checks` given for this call, and compares the affected files "
        "with what the run's builders made. `status` is verified, verification_failed, not_run or "
        "source_changed; `application` is exact, or different with `differingPaths`, which also "
        "means not applied yet. The user's index is left alone; ignored files, services and the "
        "environment are not covered."
    ),
    request=VerifyRequest,
    handler=verify,
    changes_state=True,
)
TOOLS = by_name(_VERIFY)
