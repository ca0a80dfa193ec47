-- Access tokens of a node's clients. scopes is a JSON list, secrets the valid secrets as a JSON list of
-- objects with a number, the SHA-256 and the time of creation.
create table headrace_token (
    id           text primary key,
    name         text not null,
    scopes       text not null,
    secrets      text not null,
    last_secret  integer not null,
    created_at   integer not null,
    expires_at   integer,
    last_used_at integer,
    revoked_at   integer
);
