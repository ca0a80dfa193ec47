"""The text of access tokens."""

import pytest

from headrace.model.access_tokens import (
    AccessToken,
    TokenSecret,
    has_secret,
    new_secret,
    new_token,
    parse_token,
)


def test_a_text_is_parsed_into_what_it_was_made_of() -> None:
    made = new_token()
    assert parse_token(made.text) == made
    assert made.text.startswith(f"hrt_{made.id}_")
    assert len(made.secret) == 43


def test_no_two_tokens_are_alike() -> None:
    made = [new_token() for _ in range(100)]
    assert len({token.id for token in made}) == len({token.secret for token in made}) == 100


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hrt_",
        "hrt_0123456789abcdef",
        f"hrt_0123456789abcdef_{'x' * 42}",
        f"hrt_0123456789abcdef_{'x' * 44}",
        f"hrt_0123456789abcdef_{'x' * 42}\n",
        f"hrt_0123456789abcdef_{'x' * 43}\n",
        f"hrt_0123456789abcdeF_{'x' * 43}",
        f"HRT_0123456789abcdef_{'x' * 43}",
        f" hrt_0123456789abcdef_{'x' * 43}",
        f"hrt_0123456789abcdef_{'é' * 43}",
    ],
)
def test_other_texts_are_no_tokens(text: str) -> None:
    assert parse_token(text) is None


def test_a_secret_is_compared_with_each_of_the_token() -> None:
    first = new_token()
    second = new_secret(first.id)
    token = AccessToken(
        id=first.id,
        name="n",
        scopes=("admin",),
        secrets=tuple(
            TokenSecret(number=n, hash=text.hash, created_at=0)
            for n, text in enumerate((first, second), 1)
        ),
        last_secret=2,
        created_at=0,
    )
    assert has_secret(token, first)
    assert has_secret(token, second)
    assert not has_secret(token, new_secret(first.id))


def test_a_repr_hides_the_secret() -> None:
    made = new_token()
    assert made.secret not in f"{made!r} {made}"
