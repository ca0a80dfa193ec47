-- Statements on access tokens.

-- name: add_token
-- Create a token, unless there is one with this id.
insert into headrace_token (id, name, scopes, secrets, last_secret, created_at, expires_at)
values (:id, :name, :scopes, :secrets, 1, :created_at, :expires_at)
on conflict (id) do nothing;

-- name: find_token
-- A token as it is.
select id, name, scopes, secrets, last_secret, created_at, expires_at, last_used_at, revoked_at
from headrace_token
where id = :id;

-- name: lock_token
-- A token, locked against changes by other transactions.
select id, name, scopes, secrets, last_secret, created_at, expires_at, last_used_at, revoked_at
from headrace_token
where id = :id;

-- name: save_token
-- Replace the secrets of a locked token.
update headrace_token
set secrets = :secrets, last_secret = :last_secret, revoked_at = :revoked_at
where id = :id;

-- name: list_tokens
-- All tokens, the oldest first.
select id, name, scopes, secrets, last_secret, created_at, expires_at, last_used_at, revoked_at
from headrace_token
order by created_at, id;

-- name: touch_tokens
-- Note the use of tokens whose last use was noted some time ago.
update headrace_token set last_used_at = coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer))
where id in (select value from json_each(:ids))
  and (last_used_at is null
       or last_used_at <= coalesce(:now, cast(round((julianday('now') - 2440587.5) * 86400000) as integer)) - :age);
