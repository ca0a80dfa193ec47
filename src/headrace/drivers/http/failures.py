"""Errors of a node as Headrace's own: from a problem document to the class of its code."""

from __future__ import annotations

import ssl

import msgspec

from headrace import errors
from headrace.contract.wire import (
    CLASS_OF_CODE,
    NO_SUCH_PATH,
    NOT_UNDERSTOOD,
    PROBLEM_TYPE,
    Problem,
)
from headrace.drivers.http.address import Address
from headrace.drivers.http.connections import AnswerLost, NotSent
from headrace.drivers.http.messages import Answer, NotHttp

_decode = msgspec.json.Decoder(Problem).decode


def problem_of(answer: Answer) -> Problem | None:
    """The problem document of an answer; None if it has none."""
    try:
        return _decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def error_of(problem: Problem) -> errors.HeadraceError:
    """The error that a problem document reports."""
    error_class = CLASS_OF_CODE.get(problem.code)
    if error_class is None:
        if problem.code == NOT_UNDERSTOOD:
            error_class = errors.UnsupportedStore
        else:
            # Of a newer node, perhaps.
            error_class = errors.StoreError if problem.status >= 500 else errors.HeadraceError
    error = error_class(problem.detail)
    error.details = problem.details
    return error


def is_of_node(answer: Answer) -> bool:
    """Whether a node answered, even one whose store is not open yet; else a proxy did."""
    if answer.incarnation is not None:
        return True
    problem = problem_of(answer)
    return problem is not None and problem.type.startswith(PROBLEM_TYPE)


def refusal(answer: Answer) -> str:
    """What a refusal says, in a line."""
    problem = problem_of(answer)
    return f"status {answer.status}" if problem is None else problem.detail


def may_pass(answer: Answer) -> bool:
    """Whether the same request may be accepted later."""
    problem = problem_of(answer)
    if problem is not None and problem.code == errors.OutcomeUnknown.code:
        return False
    return answer.status >= 500 or answer.status in (408, 429)


def no_node(address: Address, answer: Answer) -> errors.HeadraceError:
    """The error for something else that answers at a node's address."""
    return errors.StoreError(
        f"what answers at {address.shown} (status {answer.status}) is no Headrace node: check "
        "the address, and that no proxy stands before the node.",
    )


def has_nothing_there(answer: Answer) -> bool:
    """Whether a node says that it has nothing at the path of the request."""
    problem = problem_of(answer)
    return answer.status == 404 and problem is not None and problem.code == NO_SUCH_PATH


def wrong_path(address: Address) -> errors.HeadraceError:
    """The error for the URL of a node with a path that it does not have."""
    if not address.prefix:
        return errors.UnsupportedStore(
            f"the node at {address.shown} is of another release, which this client does not "
            "understand: run the same release on both sides."
        )
    return errors.InvalidUrl(
        f"the node has nothing at {address.prefix}: write its URL without a path, as in "
        f"{address.shown.removesuffix(address.prefix)}. A path is for a proxy that removes it."
    )


def may_be_back(error: NotSent | AnswerLost) -> bool:
    """Whether a node that cannot be reached may be there later, if nothing is changed."""
    match error.__cause__:
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError() | ssl.SSLSyscallError():
            return True
        case ssl.SSLError() | NotHttp() | UnicodeError():
            return False
    return True


def no_understanding(address: Address, error: NotSent | AnswerLost) -> errors.StoreError:
    """The error for what answers at a node's address in another way than a node does."""
    what = f"the node at {address.shown}"
    reason = error.__cause__
    match reason:
        case ssl.SSLCertVerificationError():
            text = (
                f"{what} has a certificate that is not accepted ({reason.verify_message}): give "
                "the file of the CA that signed it as in ?ca=ca.pem, and use a name that the "
                "certificate has."
            )
        case ssl.SSLError() if "ALERT" in (reason.reason or ""):
            text = (
                f"{what} refuses this client ({_words(reason)}): if it asks for certificates of "
                "clients, give one that it accepts as in ?cert=client.pem&key=client.key."
            )
        case ssl.SSLError():
            text = (
                f"what answers at {address.shown} does not speak TLS ({_words(reason)}): check "
                "the address, or use http:// if the node has no TLS."
            )
        case UnicodeError():
            text = f"{address.host!r} is no name of a host: check the address."
        case _:
            text = (
                f"what answers at {address.shown} is no Headrace node ({error}): check the address, "
                "and use https:// if the node has TLS."
            )
    return errors.StoreError(text)


def _words(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()


def unavailable(address: Address, reason: object) -> errors.StoreUnavailable:
    """The error for a node that cannot be reached."""
    return errors.StoreUnavailable(
        f"the node at {address.shown} cannot be reached ({reason}): nothing was written; check "
        "that it runs."
    )


def unanswered(address: Address, reason: object) -> errors.StoreUnavailable:
    """The error for what accepts connections at a node's address, and ends them in silence."""
    if address.tls is not None:
        # A node refuses certificates in this way.
        next_step = "give a certificate that it accepts as in ?cert=client.pem&key=client.key"
    else:
        next_step = "use https:// if it has TLS"
    return errors.StoreUnavailable(
        f"the node at {address.shown} does not answer ({reason}): check that it runs, and "
        f"{next_step}."
    )


def outcome_unknown(address: Address, reason: object) -> errors.OutcomeUnknown:
    """The error for a write whose answer is lost for good."""
    return errors.OutcomeUnknown(
        f"the answer of the node at {address.shown} was lost ({reason}): check whether it was "
        "stored, or use an idempotency key."
    )


def not_connected(address: Address) -> errors.NotConnected:
    """The error for an address at which nothing listens."""
    return errors.NotConnected(
        f"no node listens at {address.shown}: start one with headrace up, or check the address."
    )


def node_lost(address: Address) -> errors.NodeLost:
    """The error for a node that was restarted, and had its store in memory."""
    return errors.NodeLost(
        f"the node at {address.shown} was restarted, and what it had in memory is lost: begin "
        "again on its empty store."
    )
