"""Authentication of JWTs by policies; every attack is refused, with a reason for the log."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from deltaic.catalog.items import Policy
from deltaic.identity import claims as claims_of
from deltaic.identity import jose
from deltaic.identity.issuer_keys import IssuerKeys
from deltaic.identity.jose import JwtRejected
from deltaic.identity.key_download import download_keys
from deltaic.sign_in.jwt_bearers import JwtBearers
from hypothesis import given
from hypothesis import strategies as st
from identity.issuer import Issuer, private_key, public_jwk, running
from jwt.warnings import InsecureKeyLengthWarning

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Policies:
    """Policies in memory, with the method that the authorizer needs."""

    policies: list[Policy] = field(default_factory=list)

    def of_issuer(self, issuer: str) -> Sequence[Policy]:
        return [policy for policy in self.policies if policy.issuer == issuer]

    def add(self, issuer: str, recipient: str = "alice", **message: Any) -> None:
        usual = {"audience": "deltaic", "subject_claim": "sub", "subject": "alice", **message}
        number = f"{len(self.policies):012x}"
        self.policies.append(
            Policy(
                id=number, recipient_id=f"id-{recipient}", recipient=recipient, issuer=issuer, created_at=NOW, **usual
            )
        )


@dataclass
class Authorizer:
    """Authorizer of JWTs with a clock that a test can move."""

    issuer: Issuer
    policies: Policies
    ahead: float = 0.0

    def __post_init__(self) -> None:
        keys = IssuerKeys(lambda issuer: download_keys(issuer, loopback=True), self.clock)
        self.bearers = JwtBearers(self.policies, keys, clock=self.clock)  # type: ignore[arg-type]  # only one method is needed

    def clock(self) -> float:
        return time.time() + self.ahead

    def refusal(self, token: str) -> str:
        with pytest.raises(JwtRejected) as refused:
            self.bearers.authenticate(token)
        return str(refused.value)


@pytest.fixture(scope="module")
def running_issuer() -> Iterator[Issuer]:
    with running() as issuer:
        yield issuer


@pytest.fixture
def authorizer(running_issuer: Issuer) -> Authorizer:
    running_issuer.rotate("first")
    running_issuer.asked.clear()
    running_issuer.answers.clear()
    authorizer = Authorizer(running_issuer, Policies())
    authorizer.policies.add(running_issuer.url)
    return authorizer


def encode(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize("algorithm", sorted(jose.ALGORITHMS))
def test_every_algorithm_is_accepted(authorizer: Authorizer, algorithm: str) -> None:
    authorizer.issuer.rotate("one", algorithm)
    bearer = authorizer.bearers.authenticate(authorizer.issuer.token())
    assert (bearer.recipient_id, bearer.recipient, bearer.id) == ("id-alice", "alice", "jwt-000000000000")
    changed = (
        authorizer.issuer.token(sub="alice", more="x").rsplit(".", 1)[0]
        + "."
        + authorizer.issuer.token().rsplit(".", 1)[1]
    )
    assert "signature" in authorizer.refusal(changed)


def sign_content(issuer: Issuer, content: bytes) -> str:
    import jwt

    kid, (algorithm, key) = list(issuer.keys.items())[-1]
    return jwt.api_jws.encode(content, key, algorithm, {"kid": kid})


def with_algorithm(issuer: Issuer, algorithm: str) -> str:
    _, claims, signature = issuer.token().split(".")
    return f"{encode({'alg': algorithm, 'kid': 'first'})}.{claims}.{signature}"


def sign_with_shared_secret(issuer: Issuer) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = issuer.keys["first"][1].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    text = f"{encode({'alg': 'HS256', 'kid': 'first'})}.{issuer.token().split('.')[1]}"
    digest = hmac.digest(public, text.encode(), hashlib.sha256)
    return f"{text}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def sign_with_foreign_key(issuer: Issuer, headers: dict[str, Any]) -> str:
    """Sign with a foreign key under the issuer's kid, and add the key to the headers."""
    stranger = Issuer(issuer.url)
    stranger.rotate("first")
    algorithm, key = stranger.keys["first"]
    headers_with_key = {"jwk": public_jwk(key, algorithm, "first")} if "jwk" in headers else headers
    return stranger.token(headers_with_key)


ATTACKS: dict[str, tuple[Callable[[Issuer], str], str]] = {
    "alg none": (
        lambda issuer: f"{encode({'alg': 'none', 'kid': 'first'})}.{issuer.token().split('.')[1]}.",
        "algorithm",
    ),
    "alg None in capitals": (
        lambda issuer: f"{encode({'alg': 'NONE', 'kid': 'first'})}.{issuer.token().split('.')[1]}.",
        "algorithm",
    ),
    "no alg": (lambda issuer: f"{encode({'kid': 'first'})}.{issuer.token().split('.')[1]}.AAAA", "algorithm"),
    "alg a list": (
        lambda issuer: f"{encode({'alg': ['RS256'], 'kid': 'first'})}.{issuer.token().split('.')[1]}.A",
        "algorithm",
    ),
    "signature left out": (lambda issuer: issuer.token().rsplit(".", 1)[0] + ".", "signature"),
    "public key as a shared secret": (sign_with_shared_secret, "algorithm"),
    "RSA key by another family": (lambda issuer: with_algorithm(issuer, "ES256"), "no such key"),
    "PS256 said of RS256": (lambda issuer: with_algorithm(issuer, "PS256"), "signature"),
    "kid of a path": (lambda issuer: issuer.token({"kid": "../../dev/null"}), "no such key"),
    "kid of SQL": (lambda issuer: issuer.token({"kid": "' UNION SELECT 'x"}), "no such key"),
    "kid of nothing": (lambda issuer: issuer.token({"kid": ""}), "no valid key id"),
    "kid no text": (
        lambda issuer: f"{encode({'alg': 'RS256', 'kid': {'a': 1}})}.{issuer.token().split('.')[1]}.A",
        "no valid key id",
    ),
    "kid at length": (lambda issuer: issuer.token({"kid": "k" * 257}), "no valid key id"),
    "a key of its own": (lambda issuer: sign_with_foreign_key(issuer, {"jwk": None}), "signature"),
    "an address of its own": (
        lambda issuer: sign_with_foreign_key(issuer, {"jku": "http://127.0.0.1:9/keys"}),
        "signature",
    ),
    "crit": (lambda issuer: issuer.token({"crit": ["exp"], "exp": 1}), "unsupported extension"),
    "another audience": (lambda issuer: issuer.token(aud="another"), "audience"),
    "audience in other letters": (lambda issuer: issuer.token(aud="Deltaic"), "audience"),
    "audience in a text": (lambda issuer: issuer.token(aud="deltaic other"), "audience"),
    "no audience": (lambda issuer: issuer.token(aud=None), "audience"),
    "another subject": (lambda issuer: issuer.token(sub="bob"), "subject"),
    "subject a list": (lambda issuer: issuer.token(sub=["alice"]), "subject"),
    "another issuer": (lambda issuer: issuer.token(iss="https://evil.example"), "no policy names the token's issuer"),
    "issuer with a slash": (lambda issuer: issuer.token(iss=issuer.url + "/"), "no policy names the token's issuer"),
    "issuer a list": (lambda issuer: issuer.token(iss=[issuer.url]), "has no issuer"),
    "no issuer": (lambda issuer: issuer.token(iss=None), "has no issuer"),
    "ended": (lambda issuer: issuer.token(exp=int(time.time()) - 61), "has expired"),
    "no end": (lambda issuer: issuer.token(exp=None), "no expiry"),
    "end a text": (lambda issuer: issuer.token(exp="9999999999"), "not a valid time"),
    "end true": (lambda issuer: issuer.token(exp=True), "not a valid time"),
    "end without end": (lambda issuer: issuer.token(exp=math.inf), "not a valid time"),
    "end no number": (lambda issuer: issuer.token(exp=math.nan), "not a valid time"),
    "end beyond floats": (lambda issuer: issuer.token(exp=10**400), "not a valid time"),
    "end null": (
        lambda issuer: sign_content(issuer, b'{"iss": "%s", "exp": null}' % issuer.url.encode()),
        "not a valid time",
    ),
    "not yet": (lambda issuer: issuer.token(nbf=int(time.time()) + 90), "not valid yet"),
    "of the future": (lambda issuer: issuer.token(iat=int(time.time()) + 90), "not valid yet"),
    "oversized": (lambda issuer: issuer.token(padding="x" * 8192), "longer than 8 KB"),
    "claims no object": (lambda issuer: sign_content(issuer, b"[1]"), "not a JSON object"),
    "claims no JSON": (lambda issuer: sign_content(issuer, b"{"), "not JSON"),
    "claims deep": (lambda issuer: sign_content(issuer, b"[" * 5000), "not JSON"),
    "claims not UTF-8": (lambda issuer: sign_content(issuer, b'{"iss": "\xff"}'), "not JSON"),
    "four parts": (lambda issuer: issuer.token() + ".x", "three parts"),
    "line end": (lambda issuer: issuer.token() + "\n", "three parts"),
    "not base64": (lambda _: "a.b.c", "not JSON"),
    "empty parts": (lambda _: "..", "three parts"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_is_refused(authorizer: Authorizer, attack: str) -> None:
    forge, reason = ATTACKS[attack]
    token = forge(authorizer.issuer)
    message = authorizer.refusal(token)
    assert reason in message
    assert not [section for section in token.split(".") if len(section) > 8 and section in message]
    assert authorizer.bearers.authenticate(authorizer.issuer.token())


@pytest.mark.parametrize(
    "attack", ["another issuer", "another audience", "another subject", "ended", "oversized", "alg none", "no end"]
)
def test_token_without_a_matching_policy_downloads_no_keys(authorizer: Authorizer, attack: str) -> None:
    authorizer.refusal(ATTACKS[attack][0](authorizer.issuer))
    assert authorizer.issuer.asked == []


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": -59},
        {"nbf": 59},
        {"iat": 59},
        {"exp": 0.5},
    ],
    ids=str,
)
def test_clock_skew_of_a_minute_is_accepted(authorizer: Authorizer, claims: dict[str, float]) -> None:
    now = time.time()
    assert authorizer.bearers.authenticate(
        authorizer.issuer.token(**{name: now + value for name, value in claims.items()})
    )


@given(now=st.integers(0, 2**33), shift=st.integers(-300, 300), name=st.sampled_from(["exp", "nbf", "iat"]))
def test_times_are_checked_to_the_second(now: int, shift: int, name: str) -> None:
    claims = {"exp": now + 1000, name: now + shift}
    holds = shift > -60 if name == "exp" else shift <= 60
    try:
        claims_of.check_times(claims, now)
    except JwtRejected:
        assert not holds
    else:
        assert holds


SIMPLE_VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 941, 940.5, 1e300, 10**400, math.nan, math.inf, -1, "", "a", "s", "1000", {}]
)
VALUES: st.SearchStrategy[Any] = SIMPLE_VALUES | st.lists(SIMPLE_VALUES, max_size=3)


@given(claims=st.dictionaries(st.sampled_from(["exp", "nbf", "iat", "aud", "sub", "groups", "azp", "oid"]), VALUES))
def test_any_claims_are_matched_or_refused(claims: dict[str, Any]) -> None:
    """Any value of a claim either matches or not, and its times are valid or refused."""
    for claim in ("sub", "oid", "azp", "groups"):
        result = claims_of.matches(claims, audience="a", claim=claim, subject="s")
        audience, subject = claims.get("aud"), claims.get(claim)
        audiences = audience if isinstance(audience, list) else [audience]
        groups = subject if isinstance(subject, list) else []
        subjects = groups if claim == "groups" else [subject]
        assert result == ("a" in audiences and "s" in subjects)
    try:
        claims_of.check_times(claims, 1000.0)
    except JwtRejected:
        pass
    else:
        assert claims["exp"] > 940


@given(st.text(max_size=300) | st.from_regex(r"[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}"))
def test_any_text_is_parsed_or_refused(token: str) -> None:
    with suppress(JwtRejected):
        assert jose.read(token).algorithm in jose.ALGORITHMS


def test_group_must_be_in_the_list(authorizer: Authorizer) -> None:
    authorizer.policies.policies.clear()
    authorizer.policies.add(authorizer.issuer.url, subject_claim="groups", subject="readers")
    assert authorizer.bearers.authenticate(authorizer.issuer.token(groups=["writers", "readers"]))
    for groups in ("readers", ["reader"], [], [["readers"]], {"readers": 1}, None):
        assert "subject" in authorizer.refusal(authorizer.issuer.token(groups=groups))


@pytest.mark.parametrize("claim", ["sub", "oid", "azp"])
def test_policy_compares_only_its_own_claim(authorizer: Authorizer, claim: str) -> None:
    authorizer.policies.policies.clear()
    authorizer.policies.add(authorizer.issuer.url, subject_claim=claim, subject="7f3c")
    other_claims = {name: "7f3c" for name in ("sub", "oid", "azp", "client_id") if name != claim}
    assert "subject" in authorizer.refusal(authorizer.issuer.token(**{claim: "other"}, **other_claims))
    assert authorizer.bearers.authenticate(authorizer.issuer.token(**{claim: "7f3c"}, aud=["x", "deltaic"]))


def test_token_for_two_recipients_is_refused(authorizer: Authorizer) -> None:
    authorizer.policies.add(authorizer.issuer.url, "bob", subject_claim="groups", subject="readers")
    assert authorizer.bearers.authenticate(authorizer.issuer.token()).recipient == "alice"
    assert "several recipients" in authorizer.refusal(authorizer.issuer.token(groups=["readers"]))
    authorizer.policies.add(authorizer.issuer.url, "alice", subject_claim="groups", subject="writers")
    assert authorizer.bearers.authenticate(authorizer.issuer.token(groups=["writers"])).id == "jwt-000000000000"


def test_removed_policy_refuses_its_tokens(authorizer: Authorizer) -> None:
    token = authorizer.issuer.token()
    assert authorizer.bearers.authenticate(token)
    authorizer.policies.policies.clear()
    assert "no policy" in authorizer.refusal(token)


@pytest.mark.parametrize("change", ["weak", "huge exponent", "to encrypt", "of another algorithm", "no key", "HS256"])
def test_unsuitable_key_is_ignored(authorizer: Authorizer, change: str) -> None:
    algorithm, key = authorizer.issuer.keys["first"]
    jwk = public_jwk(key, algorithm, "first")
    if change == "weak":
        weak = private_key("RS256", 1024)
        authorizer.issuer.keys["first"] = (algorithm, weak)
        jwk = public_jwk(weak, algorithm, "first")
    changed = {
        "weak": jwk,
        "huge exponent": {**jwk, "e": jwk["n"]},
        "to encrypt": {**jwk, "use": "enc"},
        "of another algorithm": {**jwk, "alg": "RS512"},
        "no key": {**jwk, "n": 7},
        "HS256": {"kty": "oct", "k": "c2VjcmV0", "kid": "first"},
    }[change]
    keys = IssuerKeys(lambda _: (changed, {"kid": 7}, {}), authorizer.clock)
    bearers = JwtBearers(authorizer.policies, keys, clock=authorizer.clock)  # type: ignore[arg-type]
    with pytest.warns(InsecureKeyLengthWarning) if change == "weak" else nullcontext():
        token = authorizer.issuer.token()
    with pytest.raises(JwtRejected, match="no such key"):
        bearers.authenticate(token)
