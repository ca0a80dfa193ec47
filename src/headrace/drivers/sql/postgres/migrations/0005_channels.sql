-- Channels: lines inside a queue, each named by key-values.

-- key_values is the form of a channel's key-values: one text for the same keys and values. Rows
-- stay for a while when their last item is gone: what has no items is no channel. Who puts
-- something in line holds the row by a key share lock; who takes a channel out of the turns, or
-- removes it, locks it alone and looks again. No claim changes it.
create table headrace.channel (
    id         integer generated always as identity primary key,
    queue      integer not null,
    key_values text collate "C" not null,
    created_at bigint not null
);
create unique index channel_name on headrace.channel (queue, key_values);

-- Channels that have something in line, by when it was their turn.
create table headrace.ready (
    channel integer primary key,
    queue   integer not null,
    turn    bigint not null
) with (fillfactor = 70);
create index ready_turn on headrace.ready (queue, turn);

-- Items that went with their channel while they were out.
create table headrace.gone (
    item  bigint primary key,
    queue integer not null,
    token text not null,
    at    bigint not null
);
create index gone_time on headrace.gone (queue, at);

alter table headrace.queue add column has_channels boolean not null default false;
alter table headrace.item add column key_values text collate "C";
alter table headrace.ended add column key_values text collate "C";
create index item_channel on headrace.item (channel, state, rank, position) where channel <> 0;

-- As before, without items in channels: those are claimed in another way. A queue gets another
-- version with its first channel, but that may happen between two statements in here.
create or replace function headrace.claim_items(
    queue_id integer, queue_version integer, claim_token text, most integer, lease bigint,
    claimer text, keeps_counts boolean, sign integer, floor_rank integer, floor_position bigint,
    takes_any boolean, moment bigint
) returns table (
    answer text, next_due bigint, clock bigint, rank integer,
    id bigint, payload text, format smallint, subject text, priority integer, state smallint,
    "position" bigint, next_execution bigint, waiting_since bigint, created_at bigint,
    attempts integer, crashes integer, iterations integer, last_iteration bigint, headers text,
    overrides text, token text, lease_until bigint, claimed_at bigint, worker text, error text,
    successor text
) language plpgsql as $$
#variable_conflict use_column
declare
    target headrace.queue;
    promoted bigint := 0;
    moved bigint;
    chosen bigint[];
    more bigint[];
    due bigint;
    word text := 'claimed';
begin
    perform pg_advisory_xact_lock_shared(1214603634, queue_id);
    select * into target from headrace.queue q where q.id = queue_id and q.is_live;
    if not found then
        return;
    end if;
    moment := coalesce(moment, headrace.clock());
    if target.is_paused or target.version <> queue_version or target.held_until > moment then
        return query select 'other', null::bigint, moment, null::integer, i.*
                     from (select) one left join (select * from headrace.no_item) i on true;
        return;
    end if;
    perform set_config('synchronous_commit', 'off', true);
    loop
        with due_now as materialized (
            select i.id from headrace.item i
            where i.queue = target.id and i.state = 0 and i.next_execution <= moment
              and i.channel = 0
            order by i.next_execution, i.id
            limit 1000
            for no key update skip locked
        ), turns as materialized (
            select d.id, nextval('headrace.turn') as turn from due_now d
        )
        update headrace.item i
        set state = 1, position = coalesce(i.position, sign * t.turn)
        from turns t where i.id = t.id;
        get diagnostics moved = row_count;
        promoted := promoted + moved;
        exit when moved < 1000;
    end loop;
    if floor_position is null then
        chosen := array(
            select i.id from headrace.item i
            where i.queue = target.id and i.state = 1 and i.channel = 0
            order by i.rank, i.position limit most
            for no key update skip locked);
    else
        chosen := array(
            select i.id from headrace.item i
            where i.queue = target.id and i.state = 1 and i.channel = 0 and i.rank < floor_rank
            order by i.rank, i.position limit most
            for no key update skip locked);
        if cardinality(chosen) < most then
            more := array(
                select i.id from headrace.item i
                where i.queue = target.id and i.state = 1 and i.channel = 0
                  and i.rank = floor_rank and i.position >= floor_position
                order by i.rank, i.position limit most - cardinality(chosen)
                for no key update skip locked);
            chosen := chosen || more;
        end if;
        if cardinality(chosen) < most then
            -- Short: then nothing is passed over.
            more := array(
                select i.id from headrace.item i
                where i.queue = target.id and i.state = 1 and i.channel = 0 and i.id <> all(chosen)
                order by i.rank, i.position limit most - cardinality(chosen)
                for no key update skip locked);
            chosen := chosen || more;
        end if;
    end if;
    if cardinality(chosen) < most then
        select min(i.lease_until) into due
        from headrace.item i where i.queue = target.id and i.state = 2;
        if due <= moment and not takes_any then
            word := 'short';
            chosen := '{}';
        end if;
        due := least(due, (select min(i.next_execution) from headrace.item i
                           where i.queue = target.id and i.state = 0));
    end if;
    if keeps_counts and (promoted > 0 or cardinality(chosen) > 0) then
        insert into headrace.tally (queue, planned, pending, active, picked)
        values (target.id, -promoted, promoted - cardinality(chosen), cardinality(chosen),
                cardinality(chosen));
    end if;
    if cardinality(chosen) = 0 then
        return query select word, due, moment, null::integer, i.*
                     from (select) one left join (select * from headrace.no_item) i on true;
        return;
    end if;
    return query
    update headrace.item i
    set state = 2, attempts = i.attempts + 1, token = claim_token, worker = claimer,
        claimed_at = moment,
        lease_until = moment + coalesce(((i.overrides::json ->> 'timeout')::numeric * 1000)::bigint,
                                        lease)
    where i.id = any(chosen)
    returning word, due, moment, i.rank, i.id, i.payload, i.format, i.subject, i.priority, i.state,
              i.position, i.next_execution, i.waiting_since, i.created_at, i.attempts,
              i.crashes, i.iterations, i.last_iteration, i.headers, i.overrides, i.token,
              i.lease_until, i.claimed_at, i.worker, i.error, i.successor;
end
$$;
