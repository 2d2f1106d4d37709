"""Reading credentials and certificates: what is found, what is refused, and that secrets stay secret."""

from pathlib import Path

import pytest

from ingest.protocol.credentials import Credentials, CredentialsError, CredentialSource, TlsOptions

SEED = "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU"
CREDS = f"""-----BEGIN NATS USER JWT-----
eyJ0eXAi.eyJqdGki.c2ln-_
------END NATS USER JWT------

************************* IMPORTANT *************************

-----BEGIN USER NKEY SEED-----
{SEED}
------END USER NKEY SEED------
"""


def test_a_credentials_file_gives_jwt_and_seed(tmp_path: Path) -> None:
    """Both blocks of a ``.creds`` file are found."""
    file = tmp_path / "user.creds"
    file.write_text(CREDS)
    assert CredentialSource(credentials_file=file).load() == Credentials(jwt="eyJ0eXAi.eyJqdGki.c2ln-_", seed=SEED)


def test_a_renewed_file_is_read_at_the_next_load(tmp_path: Path) -> None:
    """Credentials may change while the process runs."""
    file = tmp_path / "user.nk"
    file.write_text(f"{SEED}\n")
    source = CredentialSource(nkey_seed_file=file)
    assert source.load().seed == SEED
    file.write_text("SUNEW")
    assert source.load().seed == "SUNEW"


@pytest.mark.parametrize("content", [b"", CREDS[:60].encode(), b"\xff\xfe"])
def test_an_unusable_credentials_file_is_named_in_the_error(tmp_path: Path, content: bytes) -> None:
    """The text names the file and does not quote it."""
    file = tmp_path / "user.creds"
    file.write_bytes(content)
    with pytest.raises(CredentialsError, match=r"user\.creds") as caught:
        CredentialSource(credentials_file=file).load()
    assert "eyJ" not in str(caught.value)


def test_a_missing_file_and_a_wrong_seed_are_errors_of_ours(tmp_path: Path) -> None:
    """Neither escapes as an error of another library."""
    with pytest.raises(CredentialsError, match=r"none\.nk"):
        CredentialSource(nkey_seed_file=tmp_path / "none.nk").load()
    with pytest.raises(CredentialsError, match="seed"):
        Credentials(seed="SUWRONG").sign("nonce")


def test_two_ways_to_enter_are_refused() -> None:
    """Which one would count must not be a guess."""
    with pytest.raises(CredentialsError, match="one of"):
        CredentialSource(user="u", password="p", token="t")


def test_secrets_do_not_stand_in_a_repr() -> None:
    """Logs and tracebacks show objects."""
    shown = repr(Credentials("u", "hidden", "hidden", "hidden", "hidden")) + repr(CredentialSource("u", "hidden"))
    assert "hidden" not in shown


def test_an_unusable_certificate_is_named_in_the_error(tmp_path: Path) -> None:
    """A wrong file is found when the context is made."""
    file = tmp_path / "ca.pem"
    with pytest.raises(CredentialsError, match=r"ca\.pem"):
        TlsOptions(ca_file=file).context()
    file.write_text("no certificate")
    with pytest.raises(CredentialsError, match=r"ca\.pem"):
        TlsOptions(ca_file=file).context()


def test_the_context_verifies_names_and_is_kept() -> None:
    """No way leads to an unverified connection, and the authorities are read once."""
    context = TlsOptions().context()
    assert context.check_hostname
    assert context.verify_mode.name == "CERT_REQUIRED"
    assert TlsOptions().context() is context
    assert not TlsOptions().configured
    assert TlsOptions(required=True).configured
