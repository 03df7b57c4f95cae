"""Authentication: turns the credential or the connection of a request into a `Caller`.

Theory of operation
-------------------
`http.app` hands the ASGI scope and the headers of every request to one `Authenticator`, which `profiles` builds from
the settings. The steps from headers to Caller:

1. `credentials.read_credential` takes the one credential of the request: `Authorization: Bearer`, or `OXP-API-Key`
   below `/oxp/`. Two that differ, or anything that cannot be a credential, fail (AuthenticationFailed).
2. Without a credential, the profile decides. `local`: a direct connection from this machine is the local user; a
   connection with forwarding headers came through a proxy and is anonymous. `server`: only public paths are served
   anonymously, unless `allow_anonymous` is set.
3. With a credential, `CredentialVerifier` decides by its form. `tk_...` is an API key, found by its digest
   (`stores.access.KeyRing`). Anything else is a JSON Web Token: `tokens` parses it, checks lifetime and audience,
   takes the issuer's key from `key_sets` and verifies the signature. Verified tokens are cached for a minute.
4. A credential that is not valid is an error: the request is never served as another caller instead. The message is
   the same for every reason. Failures from other machines are throttled by address.

The result is a Caller, or an awaitable of one where a key set has to be fetched first; most requests need no await.
Machine Context messages can hold a token of their own (`authenticate_message`); it must equal the one in the headers.
A caller is proven by a credential or by the connection, never by what a message claims.
"""
