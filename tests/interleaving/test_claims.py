"""Claims of several sessions on one proc, in every order their steps can have."""

import pytest

from headrace.errors import ClaimLost, UnknownProc


def numbers(claim) -> list[int]:
    return [] if claim is None else [record.body["n"] for record in claim]


def test_two_concurrent_claims_never_share_a_record(stepped):
    """Exactly one of two sessions gets the records, and neither of them an error."""
    stepper, (one, two) = stepped.sessions(2)

    def script(number):
        stepped.client.commit_many(f"t{number}", [{"n": n} for n in range(3)])
        stepped.client.procs.create(f"p{number}", f"t{number}")
        procs = [client.proc(f"p{number}") for client in (one, two)]
        return [lambda proc=proc: proc.claim(count=2) for proc in procs]

    for run in stepper.interleavings(script):
        assert run.errors == [None, None], run
        assert sorted(map(numbers, run.results)) == [[], [0, 1]], run


def with_expired_claim(stepped, number):
    """A proc whose first record has an expired claim."""
    stepped.client.commit_many(f"t{number}", [{"n": 0}, {"n": 1}])
    proc = stepped.client.procs.create(f"p{number}", f"t{number}", lease=1)
    claim = proc.claim()
    stepped.clock.advance(2)
    return claim


def check_takeover(stepped, run, *, is_acked):
    """The record was acked, or the session that took over has it. Never both."""
    info = stepped.client.proc(f"p{run.number}").info()
    if is_acked:
        assert numbers(run.results[1]) == [1], run
        assert info.attempts == 0, run
    else:
        assert isinstance(run.errors[0], ClaimLost), run
        assert numbers(run.results[1]) == [0], run
        assert info.attempts == 1, run
        assert info.last_acked_range == "", run
    assert run.errors[1] is None, run
    run.results[1].ack()


def test_an_ack_and_a_takeover_have_one_winner(stepped):
    """A late ack counts, or the next claim gets the records."""
    stepper, (late, next_one) = stepped.sessions(2)

    def script(number):
        claim = with_expired_claim(stepped, number)
        return claim.using(late).ack, next_one.proc(f"p{number}").claim

    outcomes = set()
    for run in stepper.interleavings(script):
        check_takeover(stepped, run, is_acked=run.errors[0] is None)
        outcomes.add(run.errors[0] is None)
    assert outcomes == {True, False}


def test_an_ack_commit_and_a_takeover_commit_once_or_not_at_all(stepped):
    """Records committed with a late ack are stored if and only if the ack counted."""
    stepper, (late, next_one) = stepped.sessions(2)

    def script(number):
        claim = with_expired_claim(stepped, number).using(late)
        stepped.client.commit(f"out{number}", {"n": "before"})
        theirs = next_one.proc(f"p{number}")
        return lambda: claim.ack_commit([(f"out{number}", {"n": 0})]), theirs.claim

    outcomes = set()
    for run in stepper.interleavings(script):
        is_acked = run.errors[0] is None
        check_takeover(stepped, run, is_acked=is_acked)
        out = stepped.client.range(f"out{run.number}")
        assert len(out) == 1 + is_acked, run
        if is_acked:
            assert run.results[0].ids == [out[1].id], run
        outcomes.add(is_acked)
    assert outcomes == {True, False}


@pytest.mark.parametrize("is_same", [True, False], ids=["same content", "other content"])
def test_an_ack_commit_sent_twice_concurrently_commits_once(stepped, is_same):
    """A repeat that overtakes the first try gets its answer. Different content is refused."""
    stepper, (one, two) = stepped.sessions(2)

    def script(number):
        stepped.client.commit_many(f"t{number}", [{"n": 0}, {"n": 1}])
        stepped.client.commit(f"out{number}", {"n": "before"})
        claim = stepped.client.procs.create(f"p{number}", f"t{number}").claim()
        other = {"n": 0} if is_same else {"n": 9}
        return (
            lambda: claim.using(one).ack_commit([(f"out{number}", {"n": 0})]),
            lambda: claim.using(two).ack_commit([(f"out{number}", other)]),
        )

    for run in stepper.interleavings(script):
        out = stepped.client.range(f"out{run.number}")
        assert len(out) == 2, run
        if is_same:
            assert run.errors == [None, None], run
            assert run.results[0] == run.results[1], run
        else:
            [refusal] = [error for error in run.errors if error is not None]
            assert isinstance(refusal, ClaimLost), run
        assert stepped.client.proc(f"p{run.number}").info().position == 1, run


def test_a_seek_and_an_ack_do_not_mix(stepped):
    """After both, the proc is where the seek put it, whichever came first."""
    stepper, (seeker, acker) = stepped.sessions(2)

    def script(number):
        stepped.client.commit_many(f"t{number}", [{"n": 0}, {"n": 1}, {"n": 2}])
        claim = stepped.client.procs.create(f"p{number}", f"t{number}").claim()
        return lambda: seeker.proc(f"p{number}").seek(":1"), claim.using(acker).ack

    for run in stepper.interleavings(script):
        assert run.errors[0] is None, run
        assert run.errors[1] is None or isinstance(run.errors[1], ClaimLost), run
        proc = stepped.client.proc(f"p{run.number}")
        assert numbers(proc.claim()) == [2], run


def test_a_proc_created_twice_concurrently_is_one_proc(stepped):
    """Both sessions refer to the same proc. The settings of both are kept."""
    stepper, (one, two) = stepped.sessions(2)

    def script(number):
        return (
            lambda: one.procs.create(f"p{number}", f"t{number}", max_attempts=3),
            lambda: two.procs.create(f"p{number}", f"t{number}", lease=5),
        )

    for run in stepper.interleavings(script):
        assert run.errors == [None, None], run
        [info] = [info for info in stepped.client.procs.list() if info.name == f"p{run.number}"]
        assert (info.max_attempts, info.lease) == (3, 5.0), run


def test_two_workers_over_two_procs_get_one_each(stepped):
    """The second worker skips the claimed proc and gets the other one."""
    stepper, (one, two) = stepped.sessions(2)

    def script(number):
        names = [f"p{number}", f"q{number}"]
        for name in names:
            stepped.client.commit(f"t{name}", {"n": name})
            stepped.client.procs.create(name, f"t{name}")
        return lambda: one.procs.claim_any(names), lambda: two.procs.claim_any(names)

    for run in stepper.interleavings(script):
        assert run.errors == [None, None], run
        assert sorted(map(numbers, run.results)) == [[f"p{run.number}"], [f"q{run.number}"]], run


def test_an_ack_commit_to_a_proc_being_deleted_is_whole_or_nothing(stepped):
    """Either the records are stored and the ack counted, or there is no proc and no record."""
    stepper, (acker, deleter) = stepped.sessions(2)

    def script(number):
        stepped.client.commit(f"t{number}", {"n": 0})
        stepped.client.commit(f"out{number}", {"n": "before"})
        claim = stepped.client.procs.create(f"p{number}", f"t{number}").claim().using(acker)
        theirs = deleter.proc(f"p{number}")
        return lambda: claim.ack_commit([(f"out{number}", {"n": 0})]), theirs.delete

    for run in stepper.interleavings(script):
        assert run.errors[1] is None, run
        is_acked = run.errors[0] is None
        assert is_acked or isinstance(run.errors[0], UnknownProc), run
        assert len(stepped.client.range(f"out{run.number}")) == 1 + is_acked, run
        assert bool(run.results[1].last_acked_range) == is_acked, run
