-- Statements on access tokens.

-- name: add_token
-- Create a token, unless there is one with this id.
insert into headrace.token (id, name, scopes, secrets, last_secret, created_at, expires_at)
values (:id, :name, :scopes, :secrets, 1, :created_at, :expires_at)
on conflict (id) do nothing;

-- name: find_token
-- A token as it is.
select id, name, scopes, secrets, last_secret, created_at, expires_at, last_used_at, revoked_at
from headrace.token
where id = :id;

-- name: lock_token
-- A token, locked against changes by other transactions.
select id, name, scopes, secrets, last_secret, created_at, expires_at, last_used_at, revoked_at
from headrace.token
where id = :id
for no key update;

-- name: save_token
-- Replace the secrets of a locked token.
update headrace.token
set secrets = :secrets, last_secret = :last_secret, revoked_at = :revoked_at
where id = :id;

-- name: list_tokens
-- All tokens, the oldest first.
select id, name, scopes, secrets, last_secret, created_at, expires_at, last_used_at, revoked_at
from headrace.token
order by created_at, id;

-- name: touch_tokens
-- Note the use of tokens whose last use was noted some time ago.
update headrace.token t set last_used_at = coalesce(:now::bigint, headrace.clock())
where t.id in (
    select u.id from headrace.token u
    where u.id = any(:ids::text[])
      and (u.last_used_at is null
           or u.last_used_at <= coalesce(:now::bigint, headrace.clock()) - :age::bigint)
    order by u.id
    for no key update skip locked
);
