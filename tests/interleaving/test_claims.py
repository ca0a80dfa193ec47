"""Claims of several sessions on one proc, in every order their steps can have."""

import pytest

from headrace.errors import ClaimLost, UnknownProc


def numbers(claim) -> list[int]:
    return [] if claim is None else [record.body["n"] for record in claim]


def test_two_claims_at_once_never_share_a_record(stage):
    """Exactly one of two sessions gets the records, and neither of them an error."""
    stepper, (one, two) = stage.act(2)

    def script(number):
        stage.client.commit_many(f"t{number}", [{"n": n} for n in range(3)])
        stage.client.proc(f"p{number}", topic=f"t{number}")
        procs = [client.proc(f"p{number}") for client in (one, two)]
        return [lambda proc=proc: proc.claim(count=2) for proc in procs]

    for run in stepper.interleavings(script):
        assert run.errors == [None, None], run
        assert sorted(map(numbers, run.results)) == [[], [0, 1]], run


def with_expired_claim(stage, number):
    """A proc whose first record is out with a claim that has run out of time."""
    stage.client.commit_many(f"t{number}", [{"n": 0}, {"n": 1}])
    proc = stage.client.proc(f"p{number}", topic=f"t{number}", reclaim_timeout=1)
    token = proc.claim().token
    stage.clock.advance(2)
    return token


def check_takeover(stage, run, *, is_acked):
    """The record was acked, or it is with the session that took over; never both."""
    info = stage.client.proc(f"p{run.number}").inspect()
    if is_acked:
        assert numbers(run.results[1]) == [1], run
        assert info.reclaims == 0, run
    else:
        assert isinstance(run.errors[0], ClaimLost), run
        assert numbers(run.results[1]) == [0], run
        assert info.reclaims == 1, run
        assert info.last_acked_range == "", run
    assert run.errors[1] is None, run
    run.results[1].ack()


def test_an_ack_and_a_takeover_have_one_winner(stage):
    """A late ack counts, or the records go to the next claim: one or the other."""
    stepper, (late, next_one) = stage.act(2)

    def script(number):
        token = with_expired_claim(stage, number)
        mine, theirs = late.proc(f"p{number}"), next_one.proc(f"p{number}")
        return lambda: mine.ack(token), theirs.claim

    outcomes = set()
    for run in stepper.interleavings(script):
        check_takeover(stage, run, is_acked=run.errors[0] is None)
        outcomes.add(run.errors[0] is None)
    assert outcomes == {True, False}


def test_an_ack_commit_and_a_takeover_commit_once_or_not_at_all(stage):
    """What is committed with a late ack is there if the ack counted, and only then."""
    stepper, (late, next_one) = stage.act(2)

    def script(number):
        token = with_expired_claim(stage, number)
        stage.client.commit(f"out{number}", {"n": "before"})
        mine, theirs = late.proc(f"p{number}"), next_one.proc(f"p{number}")
        return lambda: mine.ack_commit(token, [(f"out{number}", {"n": 0})]), theirs.claim

    outcomes = set()
    for run in stepper.interleavings(script):
        is_acked = run.errors[0] is None
        check_takeover(stage, run, is_acked=is_acked)
        out = stage.client.range(f"out{run.number}")
        assert len(out) == 1 + is_acked, run
        if is_acked:
            assert run.results[0].ids == [out[1].id], run
        outcomes.add(is_acked)
    assert outcomes == {True, False}


@pytest.mark.parametrize("is_same", [True, False], ids=["same content", "other content"])
def test_an_ack_commit_sent_twice_at_once_commits_once(stage, is_same):
    """A repeat that overtakes the first try gets its answer; other content is refused."""
    stepper, (one, two) = stage.act(2)

    def script(number):
        stage.client.commit_many(f"t{number}", [{"n": 0}, {"n": 1}])
        stage.client.commit(f"out{number}", {"n": "before"})
        token = stage.client.proc(f"p{number}", topic=f"t{number}").claim().token
        other = {"n": 0} if is_same else {"n": 9}
        first, second = one.proc(f"p{number}"), two.proc(f"p{number}")
        return (
            lambda: first.ack_commit(token, [(f"out{number}", {"n": 0})]),
            lambda: second.ack_commit(token, [(f"out{number}", other)]),
        )

    for run in stepper.interleavings(script):
        out = stage.client.range(f"out{run.number}")
        assert len(out) == 2, run
        if is_same:
            assert run.errors == [None, None], run
            assert run.results[0] == run.results[1], run
        else:
            [refusal] = [error for error in run.errors if error is not None]
            assert isinstance(refusal, ClaimLost), run
        assert stage.client.proc(f"p{run.number}").inspect().position == 1, run


def test_a_seek_and_an_ack_do_not_mix(stage):
    """After both, the proc stands where the seek put it, whichever came first."""
    stepper, (seeker, acker) = stage.act(2)

    def script(number):
        stage.client.commit_many(f"t{number}", [{"n": 0}, {"n": 1}, {"n": 2}])
        token = stage.client.proc(f"p{number}", topic=f"t{number}").claim().token
        mine, theirs = seeker.proc(f"p{number}"), acker.proc(f"p{number}")
        return lambda: mine.seek(":1"), lambda: theirs.ack(token)

    for run in stepper.interleavings(script):
        assert run.errors[0] is None, run
        assert run.errors[1] is None or isinstance(run.errors[1], ClaimLost), run
        proc = stage.client.proc(f"p{run.number}")
        assert numbers(proc.claim()) == [2], run


def test_a_proc_made_twice_at_once_is_one_proc(stage):
    """Both sessions refer to the same proc; the settings of both are kept."""
    stepper, (one, two) = stage.act(2)

    def script(number):
        return (
            lambda: one.proc(f"p{number}", topic=f"t{number}", max_reclaims=3),
            lambda: two.proc(f"p{number}", topic=f"t{number}", reclaim_timeout=5),
        )

    for run in stepper.interleavings(script):
        assert run.errors == [None, None], run
        [info] = [info for info in stage.client.procs() if info.name == f"p{run.number}"]
        assert (info.max_reclaims, info.reclaim_timeout) == (3, 5.0), run


def test_two_workers_over_two_procs_get_one_each(stage):
    """Whoever comes second passes over the proc that is taken and gets the other one."""
    stepper, (one, two) = stage.act(2)

    def script(number):
        names = [f"p{number}", f"q{number}"]
        for name in names:
            stage.client.commit(f"t{name}", {"n": name})
            stage.client.proc(name, topic=f"t{name}")
        return lambda: one.available_proc(names), lambda: two.available_proc(names)

    for run in stepper.interleavings(script):
        assert run.errors == [None, None], run
        assert sorted(map(numbers, run.results)) == [[f"p{run.number}"], [f"q{run.number}"]], run


def test_an_ack_commit_to_a_proc_being_destroyed_is_whole_or_nothing(stage):
    """Either the records are there and the ack counted, or there is no proc and no record."""
    stepper, (acker, destroyer) = stage.act(2)

    def script(number):
        stage.client.commit(f"t{number}", {"n": 0})
        stage.client.commit(f"out{number}", {"n": "before"})
        token = stage.client.proc(f"p{number}", topic=f"t{number}").claim().token
        mine, theirs = acker.proc(f"p{number}"), destroyer.proc(f"p{number}")
        return lambda: mine.ack_commit(token, [(f"out{number}", {"n": 0})]), theirs.destroy

    for run in stepper.interleavings(script):
        assert run.errors[1] is None, run
        is_acked = run.errors[0] is None
        assert is_acked or isinstance(run.errors[0], UnknownProc), run
        assert len(stage.client.range(f"out{run.number}")) == 1 + is_acked, run
        assert bool(run.results[1].last_acked_range) == is_acked, run
