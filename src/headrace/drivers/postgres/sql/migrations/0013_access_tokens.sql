-- Access tokens of a node's clients. scopes is a JSON list, secrets the valid secrets as a JSON list of
-- objects with a number, the SHA-256 and the time of creation. A transaction that changes a token locks
-- its row.
create table headrace.token (
    id           text collate "C" primary key,
    name         text not null,
    scopes       text not null,
    secrets      text not null,
    last_secret  integer not null,
    created_at   bigint not null,
    expires_at   bigint,
    last_used_at bigint,
    revoked_at   bigint
);
