-- Channels: lines inside a queue, each named by key-values.

-- key_values is the form of a channel's key-values: one text for the same keys and values. Rows
-- stay for a while when their last item is gone: what has no items is no channel. Who puts
-- something in line holds the row by a key share lock; who takes a channel out of the turns, or
-- removes it, locks it alone and looks again. No claim changes it. It is remembered whether the
-- channel has ever had an item that gives its place to newer ones.
create table headrace.channel (
    id             integer generated always as identity primary key,
    queue          integer not null,
    key_values     text collate "C" not null,
    created_at     bigint not null,
    has_updateable boolean not null default false,
    lane           integer not null default 0
);
create unique index channel_name on headrace.channel (queue, key_values);

-- Channels that have something in line, by when it was their turn; and the place of the last item
-- that was taken, where it is known: in front of that there is mostly nothing, or rows that are dead
-- but cannot be removed yet. last_look is when somebody saw the whole line.
create table headrace.ready (
    channel       integer primary key,
    queue         integer not null,
    lane          integer not null default 0,
    turn          bigint not null,
    last_rank     integer,
    last_position bigint,
    last_look     bigint
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
       autovacuum_vacuum_cost_delay = 0);
create index ready_turn on headrace.ready (queue, lane, turn);

-- Queries that claims select by, each by its form; since is the number that the queue's selections
-- had with it.
create table headrace.selection (
    id      integer generated always as identity primary key,
    queue   integer not null,
    form    text collate "C" not null,
    since   integer not null,
    seen_at bigint not null
);
create unique index selection_form on headrace.selection (queue, form);

-- Channels that the same of a queue's selections select, of those that there were when the number
-- of selections was version: their ids, each between commas. A lane never changes, nor do the
-- key-values of a channel; so what is in a lane is there by right, whoever put it there. Channels
-- in no lane (0), or in one that is older than a selection, may be selected by it or not.
create table headrace.lane (
    id         integer generated always as identity primary key,
    queue      integer not null,
    version    integer not null,
    selections text collate "C" not null
);
create unique index lane_selections on headrace.lane (queue, version, selections);

-- Items that went with their channel while they were out.
create table headrace.gone (
    item  bigint primary key,
    queue integer not null,
    token text not null,
    at    bigint not null
);
create index gone_time on headrace.gone (queue, at);

-- Channels of which nothing runs before a time.
create table headrace.channel_hold (
    queue      integer not null,
    key_values text collate "C" not null,
    until      bigint not null,
    primary key (queue, key_values)
);
create index channel_hold_end on headrace.channel_hold (queue, until);

alter table headrace.queue add column has_channels boolean not null default false;
alter table headrace.queue add column selections integer not null default 0;
alter table headrace.item add column key_values text collate "C";
alter table headrace.ended add column key_values text collate "C";

-- Hand out items that we have locked, by where they are on the disk. They come in one text, because
-- many rows are slow to fetch: items divided by U+001E, what is known of each by U+001F. Most are new
-- and have nothing of their own but their payload, and perhaps a channel; only of others all is told.
create function headrace.hand_out(
    spots tid[], claim_token text, claimer text, moment bigint, lease bigint
) returns text language plpgsql as $$
declare
    handed text;
begin
    if cardinality(spots) = 0 then
        return null;
    end if;
    with h as (
        update headrace.item i
        set state = 2, attempts = i.attempts + 1, token = claim_token, worker = claimer,
            claimed_at = moment,
            lease_until = moment
                + coalesce(((i.overrides::json ->> 'timeout')::numeric * 1000)::bigint, lease)
        where i.ctid = any(spots)
        returning case
            when i.attempts = 1 and i.next_execution = i.created_at
                 and i.waiting_since = i.created_at and i.priority = 0 and i.format = 0
                 and i.crashes = 0 and i.iterations = 0 and i.last_iteration is null
                 and i.subject is null and i.headers is null and i.overrides is null
                 and i.error is null and i.successor is null
            then concat_ws(E'\x1f', i.id, i.position, i.created_at, i.payload, i.key_values)
            else concat_ws(
                E'\x1f', i.id, i.position, i.created_at, i.payload, coalesce(i.key_values, E'\x15'),
                i.format, coalesce(i.subject, E'\x15'), i.priority, i.next_execution,
                i.waiting_since, i.attempts, i.crashes, i.iterations,
                coalesce(i.last_iteration::text, E'\x15'), coalesce(i.headers, E'\x15'),
                coalesce(i.overrides, E'\x15'), i.lease_until, coalesce(i.error, E'\x15'),
                coalesce(i.successor, E'\x15'))
            end as line
    )
    select string_agg(h.line, E'\x1e') into handed from h;
    return handed;
end
$$;
create index item_channel on headrace.item (channel, state, rank, position) where channel <> 0;

-- Push new documents to channels of a queue whose settings have a version, in one statement;
-- answers nothing if they have not. The channels come by name, in order; homes says which is
-- whose. See headrace.push_items for the rest. -1 says that the last item of one of the channels may
-- have to give its place, and nothing was done.
create function headrace.push_to_channels(
    queue_id integer, queue_version integer, receipt uuid, sign integer, moment bigint,
    listener text, names text, homes text, ranks text, payloads text, formats text,
    subjects text, priorities text, dues text, delays text, headerses text, overrideses text
) returns table (done text, is_under_way boolean) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
    nothing text;
    queue_name text;
    forms text[] := string_to_array(names, E'\x1e');
    channels integer[];
    doubtful integer[];
    planned bigint;
    pending bigint;
begin
    nothing := pg_advisory_xact_lock_shared(1214603634, queue_id);
    select q.name into queue_name from headrace.queue q
    where q.id = queue_id and q.version = queue_version and q.is_live;
    if not found then
        return;
    end if;
    moment := coalesce(moment, headrace.clock());
    loop
        select array_agg(h.id order by n.n), array_agg(h.id) filter (where h.has_updateable)
        into channels, doubtful
        from unnest(forms) with ordinality as n (form, n)
        cross join lateral (
            select c.id, c.has_updateable from headrace.channel c
            where c.queue = queue_id and c.key_values = n.form
            for key share
        ) h;
        exit when cardinality(channels) = cardinality(forms);
        -- Again if somebody has removed one just when we found that it is there.
        insert into headrace.channel (queue, key_values, created_at)
        select queue_id, n.form, moment from unnest(forms) as n (form)
        where not exists (select from headrace.channel c
                          where c.queue = queue_id and c.key_values = n.form)
        order by n.form collate "C"
        on conflict (queue, key_values) do nothing;
    end loop;
    perform from unnest(doubtful) as c (id)
    cross join lateral (
        select f.subject, f.overrides from headrace.item f
        where f.channel = c.id and f.channel <> 0 and f.state = 1
        order by f.rank desc, f.position desc
        limit 1
    ) l
    where l.subject is null and l.overrides::json ->> 'updateable' = 'true'
    limit 1;
    if found then
        done := '-1';
        return next;
        return;
    end if;
    with fresh as (
        insert into headrace.item as i (
            queue, rank, payload, format, subject, priority, state, position,
            next_execution, waiting_since, created_at, headers, overrides, channel, key_values
        )
        select queue_id, coalesce(d.rank::integer, 0), coalesce(d.payload, ''),
               coalesce(d.format::smallint, 0), d.subject, coalesce(d.priority::integer, 0),
               case when d.due <= moment then 1 else 0 end,
               case when d.due <= moment then sign * nextval('headrace.turn') end,
               d.due, moment, moment, d.headers, d.overrides, d.channel, d.form
        from (
            select r.*, coalesce(r.at::bigint, moment + coalesce(r.delay::bigint, 0)) as due,
                   h.channel, h.form
            from rows from (
                string_to_table(homes, E'\x1e', E'\x15'),
                string_to_table(ranks, E'\x1e', E'\x15'),
                string_to_table(payloads, E'\x1e', E'\x15'),
                string_to_table(formats, E'\x1e', E'\x15'),
                string_to_table(subjects, E'\x1e', E'\x15'),
                string_to_table(priorities, E'\x1e', E'\x15'),
                string_to_table(dues, E'\x1e', E'\x15'),
                string_to_table(delays, E'\x1e', E'\x15'),
                string_to_table(headerses, E'\x1e', E'\x15'),
                string_to_table(overrideses, E'\x1e', E'\x15')
            ) with ordinality as r (
                home, rank, payload, format, subject, priority, at, delay, headers, overrides, n
            )
            join rows from (unnest(channels), unnest(forms))
                 with ordinality as h (channel, form, n) on h.n = r.home::bigint
            order by r.n
        ) d
        on conflict (queue, subject) where i.subject is not null do nothing
        returning i.id, i.subject, i.state, i.channel
    ), waiting as (
        -- In the order of their documents; entered in that of the channels, as all do it.
        select w.channel, nextval('headrace.turn') as turn
        from (
            select f.channel from fresh f
            where f.state = 1
              and not exists (select from headrace.ready r where r.channel = f.channel)
            group by f.channel order by min(f.id)
        ) w
    ), lined as (
        insert into headrace.ready (channel, queue, lane, turn)
        select w.channel, queue_id, (select c.lane from headrace.channel c where c.id = w.channel),
               w.turn
        from waiting w order by w.channel
        on conflict (channel) do nothing
    )
    select string_agg(f.id::text || coalesce(E'\x1f' || f.subject, ''), E'\x1e'),
           count(*) filter (where f.state = 0), count(*) filter (where f.state = 1)
    into done, planned, pending from fresh f;
    is_under_way := headrace.end_push(
        queue_id, queue_name, receipt, moment, done, planned, pending, listener);
    return next;
end
$$;

-- Let planned items that are due stand in line, in the order in which they became so; how many.
create function headrace.promote_items(queue_id integer, sign integer, moment bigint)
returns bigint language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    items bigint[];
    homes integer[];
    promoted bigint := 0;
begin
    loop
        select array_agg(d.id), array_agg(d.channel) into items, homes
        from (
            select i.id, i.channel from headrace.item i
            where i.queue = queue_id and i.state = 0 and i.next_execution <= moment
            order by i.next_execution, i.id
            limit 1000
            for no key update skip locked
        ) d;
        exit when items is null;
        perform from headrace.channel c where c.id = any(homes) order by c.key_values for key share;
        -- Materialized: a plan may read a subquery again for every row, and take turns each time.
        with turns as materialized (
            select n.id, nextval('headrace.turn') as turn from unnest(items) as n (id)
        )
        update headrace.item i
        set state = 1, position = coalesce(i.position, sign * t.turn)
        from turns t where i.id = t.id;
        insert into headrace.ready (channel, queue, lane, turn)
        select t.channel, queue_id, (select c.lane from headrace.channel c where c.id = t.channel),
               t.turn
        from (
            select d.channel, nextval('headrace.turn') as turn
            from (
                select h.channel from unnest(homes) with ordinality as h (channel, n)
                where h.channel <> 0
                  and not exists (select from headrace.ready r where r.channel = h.channel)
                group by h.channel order by min(h.n)
            ) d
        ) t
        order by t.channel
        on conflict (channel) do nothing;
        promoted := promoted + cardinality(items);
        exit when cardinality(items) < 1000;
    end loop;
    return promoted;
end
$$;

-- Claim items of channels that take turns, in one statement, where the queue is open and its
-- settings have a version. The channels are all that the queue has, those of a selection, or those
-- that were asked, in the order of their turns. Each gives up to a quantum; if that is not enough, those that
-- have more share the rest. See headrace.claim_items for the words 'other' and 'short'; 'more'
-- means that it was not enough, and that not all channels were asked; 'unsorted' that there are
-- channels of which it is not known whether they are selected. It also says what is due next, and
-- in which order the items are.
-- Where rules of a version are about what is out, it is counted at the end. 'crowded' means that
-- there was no room for all of it: then it should be said that it is tight. The totals are locked
-- first then, and each channel gives what there is room for.
-- 'unbound' means that it is not known what the rules say about channels, which are named in place
-- of the order.
create function headrace.claim_in_turn(
    queue_id integer, queue_version integer, claim_token text, most integer, lease bigint,
    claimer text, keeps_counts boolean, sign integer, quantum integer, is_strict boolean,
    selection integer, asked integer[], are_all boolean, takes_any boolean, moment bigint,
    rules integer, is_tight boolean, floor_turn bigint
) returns table (
    answer text, next_due bigint, clock bigint, line text, first_turn bigint, items text, counted text
) language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
    nothing text;
    target headrace.queue;
    promoted bigint := 0;
    -- How many channels are looked at together, and how many items each of them is to give.
    width integer := least(greatest(most, 10), 1000);
    share integer := case when is_strict then 1 else quantum end;
    candidates integer[];
    looked integer;
    looked_at integer;
    has_holds boolean;
    seen bigint := coalesce(floor_turn, -1);
    -- The first turn that was found to be somebody's.
    first_seen bigint;
    first_now bigint;
    -- Items, the channel of each, and the channels that were looked at for them.
    got bigint[];
    theirs integer[];
    -- The places of the items, where they are known.
    ranks integer[] := '{}';
    places bigint[] := '{}';
    their_ranks integer[];
    their_places bigint[];
    chosen bigint[] := '{}';
    -- Where they are on the disk, which cannot change while we have them.
    spots tid[] := '{}';
    their_spots tid[];
    givers integer[] := '{}';
    visited integer[] := '{}';
    turns bigint[];
    emptied integer[];
    due bigint;
    word text := 'claimed';
    unbound text;
    -- Totals that are full for somebody, and whether we have locked any.
    full_ones integer[] := '{}';
    full_now integer[];
    has_totals boolean := false;
    is_passed_over boolean := false;
    -- Where it is counted, unless totals are locked first.
    counts record;
begin
    nothing := pg_advisory_xact_lock_shared(1214603634, queue_id);
    select * into target from headrace.queue q where q.id = queue_id and q.is_live;
    if not found then
        return;
    end if;
    moment := coalesce(moment, headrace.clock());
    if target.is_paused or target.version <> queue_version or target.held_until > moment then
        return query select 'other', null::bigint, moment, null::text, null::bigint, null::text,
                            null::text;
        return;
    end if;
    if selection is not null and headrace.has_unsorted(target.id, selection) then
        return query select 'unsorted', null::bigint, moment, null::text, null::bigint, null::text,
                            null::text;
        return;
    end if;
    if rules > 0 and headrace.has_ended_leases(target.id, moment) then
        return query select 'short', null::bigint, moment, null::text, null::bigint, null::text,
                            null::text;
        return;
    end if;
    -- What is counted must be on the disk before it is used; the client sees to that.
    nothing := set_config('synchronous_commit', 'off', true);
    has_holds := exists (select from headrace.channel_hold h
                         where h.queue = target.id and h.until > moment);
    perform from headrace.item i
    where i.queue = target.id and i.state = 0 and i.next_execution <= moment limit 1;
    if found then
        promoted := headrace.promote_items(target.id, sign, moment);
    end if;
    loop
        -- Candidates, in the order of their turns.
        if asked is not null then
            candidates := asked;
        else
            select array_agg(r.channel), max(r.turn), min(r.turn) into candidates, seen, first_now
            from (
                select n.channel, n.turn
                -- In the same statement: somebody may be moving channels to new lanes.
                from (
                    select 0 as id where selection is null
                    union all
                    select k.id from headrace.lane k
                    where k.queue = target.id
                      and (selection is null or k.selections like '%,' || selection || ',%')
                ) l
                cross join lateral (
                    select f.channel, f.turn from headrace.ready f
                    where f.queue = target.id and f.lane = l.id and f.turn > seen
                    order by f.turn limit width
                ) n
                order by n.turn limit width
            ) r;
        end if;
        exit when candidates is null;
        first_seen := coalesce(first_seen, first_now);
        looked := cardinality(candidates);
        -- Which of them may give something.
        if has_holds then
            candidates := array(
                select c.channel from unnest(candidates) with ordinality as c (channel, n)
                where not exists (
                    select from headrace.channel k
                    join headrace.channel_hold h
                        on h.queue = k.queue and h.key_values = k.key_values
                    where k.id = c.channel and h.until > moment)
                order by c.n);
        end if;
        if is_strict then
            candidates := headrace.free_channels(candidates);
        end if;
        if is_tight and exists (
            select from headrace.bounds_of(target.id, candidates, rules) b where not b.is_bound
        ) then
            word := 'unbound';
            exit;
        end if;
        -- What they give.
        if is_tight then
            looked_at := cardinality(candidates);
            candidates := headrace.lock_totals(candidates, has_totals);
            is_passed_over := is_passed_over or cardinality(candidates) < looked_at;
            has_totals := true;
            select o.open_ones, o.full_ones into candidates, full_now
            from headrace.open_channels(candidates) o;
            full_ones := full_ones || full_now;
            select t.items, t.spots, t.givers, t.full_ones into got, their_spots, theirs, full_now
            from headrace.take_counted(candidates, share, most - cardinality(chosen), '{}') t;
            full_ones := full_ones || full_now;
        elsif floor_turn is not null then
            select array_agg(x.id), array_agg(x.spot), array_agg(x.channel), array_agg(x.rank),
                   array_agg(x.position)
            into got, their_spots, theirs, their_ranks, their_places
            from (
                select i.id, i.spot, c.channel, i.rank, i.position
                from unnest(candidates) as c (channel)
                left join lateral (
                    select f.last_rank, f.last_position from headrace.ready f
                    where f.channel = c.channel and f.last_look > moment - 2000
                    -- Not to be joined in another order: theirs is that of the turns.
                    offset 0
                ) r on true
                cross join lateral (
                    -- What goes before the last one by its priority, and then what is behind it.
                    select u.id, u.spot, u.rank, u.position from (
                        select a.* from (
                            select f.id, f.ctid as spot, f.rank, f.position from headrace.item f
                            where f.channel = c.channel and f.channel <> 0 and f.state = 1
                              and f.rank < r.last_rank
                            order by f.rank, f.position
                            limit share
                            for no key update skip locked
                        ) a
                        union all
                        select b.* from (
                            select f.id, f.ctid as spot, f.rank, f.position from headrace.item f
                            where f.channel = c.channel and f.channel <> 0 and f.state = 1
                              and (f.rank, f.position) > (coalesce(r.last_rank, -2147483648),
                                                          coalesce(r.last_position, 0))
                            order by f.rank, f.position
                            limit share
                            for no key update skip locked
                        ) b
                    ) u
                    limit share
                ) i
                limit most - cardinality(chosen)
            ) x;
        else
            select array_agg(x.id), array_agg(x.spot), array_agg(x.channel), array_agg(x.rank),
                   array_agg(x.position)
            into got, their_spots, theirs, their_ranks, their_places
            from (
                select i.id, i.spot, c.channel, i.rank, i.position
                from unnest(candidates) as c (channel)
                cross join lateral (
                    select f.id, f.ctid as spot, f.rank, f.position from headrace.item f
                    where f.channel = c.channel and f.channel <> 0 and f.state = 1
                    order by f.rank, f.position
                    limit share
                    for no key update skip locked
                ) i
                limit most - cardinality(chosen)
            ) x;
        end if;
        chosen := chosen || got;
        spots := spots || their_spots;
        givers := givers || theirs;
        ranks := ranks || their_ranks;
        places := places || their_places;
        if cardinality(chosen) = most then
            visited := visited
                || candidates[1 : array_position(candidates, theirs[cardinality(theirs)])];
            exit;
        end if;
        visited := visited || candidates;
        exit when asked is not null or looked < width;
        width := least(4 * width, 1000);
    end loop;
    if word <> 'claimed' then
        null;
    elsif cardinality(chosen) < most and floor_turn is not null then
        -- Short: then nothing is passed over, and who asks does so again.
        word := 'floored';
    elsif cardinality(chosen) < most and asked is not null and (not are_all or promoted > 0) then
        -- Who asks does not know of channels that have just got their first item.
        word := 'more';
    elsif cardinality(chosen) < most and selection is not null and promoted > 0
          and headrace.has_unsorted(target.id, selection) then
        word := 'unsorted';
    elsif not is_strict then
        theirs := givers;
        while cardinality(chosen) < most loop
            -- Those that gave as much as they should have more.
            candidates := array(
                select g.channel from unnest(theirs) with ordinality as g (channel, n)
                group by g.channel having count(*) = share order by min(g.n));
            exit when cardinality(candidates) = 0;
            share := greatest(
                quantum, ceil((most - cardinality(chosen))::numeric / cardinality(candidates)));
            if is_tight then
                select t.items, t.spots, t.givers, t.full_ones
                into got, their_spots, theirs, full_now
                from headrace.take_counted(
                    candidates, share, most - cardinality(chosen), chosen) t;
                full_ones := full_ones || full_now;
            else
                select array_agg(x.id), array_agg(x.spot), array_agg(x.channel),
                       array_agg(x.rank), array_agg(x.position)
                into got, their_spots, theirs, their_ranks, their_places
                from (
                    select i.id, i.spot, c.channel, i.rank, i.position
                    from unnest(candidates) as c (channel)
                    cross join lateral (
                        select f.id, f.ctid as spot, f.rank, f.position from headrace.item f
                        where f.channel = c.channel and f.channel <> 0 and f.state = 1
                          and f.id <> all(chosen)
                        order by f.rank, f.position
                        limit share
                        for no key update skip locked
                    ) i
                    limit most - cardinality(chosen)
                ) x;
            end if;
            exit when coalesce(cardinality(got), 0) = 0;
            chosen := chosen || got;
            spots := spots || their_spots;
            givers := givers || theirs;
            ranks := ranks || their_ranks;
            places := places || their_places;
        end loop;
    end if;
    -- Looked at again when we have the items: whoever puts items back in line and holds their
    -- channel does both at once.
    perform from headrace.channel_hold h
    join headrace.channel k on k.queue = h.queue and k.key_values = h.key_values
    where h.queue = target.id and h.until > moment and k.id = any(givers) limit 1;
    if found and word = 'claimed' then
        word := 'other';
    end if;
    if rules > 0 and not is_tight and word = 'claimed' then
        counts := headrace.totals_of(target.id, givers, rules);
        word := counts.word;
        -- For whoever completes all of it.
        counted := array_to_string(counts.ids, ',') || ';' || array_to_string(counts.numbers, ',');
    end if;
    if word = 'unbound' then
        -- Those that come next, too.
        unbound := headrace.unbound_channels(
            target.id, selection, candidates || givers, seen, rules);
    end if;
    if word = 'claimed' and cardinality(chosen) < most then
        select min(i.lease_until) into due
        from headrace.item i where i.queue = target.id and i.state = 2;
        if due <= moment and not takes_any then
            word := 'short';
        end if;
        due := least(due, (select min(i.next_execution) from headrace.item i
                           where i.queue = target.id and i.state = 0));
        if has_holds then
            due := least(due, (select min(h.until) from headrace.channel_hold h
                               where h.queue = target.id and h.until > moment));
        end if;
    end if;
    if word <> 'claimed' then
        if is_tight then
            perform headrace.count_in(target.id, givers, 0);
        end if;
        chosen := '{}';
        spots := '{}';
        givers := '{}';
    elsif is_tight and cardinality(chosen) < most then
        perform headrace.wait_for_totals(target.id, full_ones);
        if is_passed_over then
            -- Whoever has their totals does not know that somebody waits.
            due := least(due, moment + 10);
        end if;
    end if;
    if keeps_counts and (promoted > 0 or cardinality(chosen) > 0) then
        insert into headrace.tally (queue, planned, pending, active, picked)
        values (target.id, -promoted, promoted - cardinality(chosen), cardinality(chosen),
                cardinality(chosen));
    end if;
    return query
    select word, due, moment, coalesce(unbound, array_to_string(chosen, ',')), first_seen,
           headrace.hand_out(spots, claim_token, claimer, moment, lease), counted;
    emptied := headrace.empty_channels(visited, floor_turn is not null);
    if cardinality(chosen) > 0 then
        -- It was their turn.
        select array_agg(g.channel order by g.first), array_agg(g.rank order by g.first),
               array_agg(g.place order by g.first)
        into givers, ranks, places
        from (
            select g.channel, min(g.n) as first, (array_agg(g.rank order by g.n desc))[1] as rank,
                   (array_agg(g.place order by g.n desc))[1] as place
            from rows from (unnest(givers), unnest(ranks), unnest(places))
                with ordinality as g (channel, rank, place, n)
            where g.channel <> all(emptied)
            group by g.channel
        ) g;
        turns := array(
            select nextval('headrace.turn') from generate_series(1, cardinality(givers)));
        update headrace.ready r
        set turn = t.turn, last_rank = t.rank, last_position = t.place,
            last_look = case when floor_turn is not null and r.last_look > moment - 2000
                             then r.last_look else moment end
        from (
            select l.channel, s.turn, s.rank, s.place
            from rows from (unnest(givers), unnest(turns), unnest(ranks), unnest(places))
                as s (channel, turn, rank, place)
            cross join lateral (
                select f.channel from headrace.ready f where f.channel = s.channel
                for no key update skip locked
            ) l
        ) t
        where r.channel = t.channel;
        if rules > 0 and not is_tight then
            -- Late, so that nobody waits for the rest. Others may have been faster.
            if not headrace.count_out(counts.ids, counts.numbers, counts.limits) then
                raise exception 'others have taken the room' using errcode = 'HR002';
            end if;
        end if;
    end if;
    -- Only now: nobody who waits for a total holds a channel.
    perform headrace.retire_channels(emptied);
end
$$;

-- Whether channels take turns of which it is not known whether a selection selects them.
create function headrace.has_unsorted(queue_id integer, selection_id integer)
returns boolean language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
    return exists (select from headrace.ready r where r.queue = queue_id and r.lane = 0)
        or exists (
            select from headrace.lane l
            where l.queue = queue_id
              and l.version < (select s.since from headrace.selection s where s.id = selection_id)
              and exists (select from headrace.ready r
                          where r.queue = queue_id and r.lane = l.id));
end
$$;

-- Which of some channels, in this order, may give an item to us and nobody else: of a strict one
-- no item is out, nor will one return to its place.
create function headrace.free_channels(channels integer[]) returns integer[] language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    locked integer[];
begin
    locked := array(
        select l.channel from unnest(channels) as c (channel)
        cross join lateral (
            select r.channel from headrace.ready r where r.channel = c.channel
            for no key update skip locked
        ) l);
    -- A statement of its own: what others took before we had the lock is seen now.
    return array(
        select c.channel from unnest(locked) as c (channel)
        where not exists (select from headrace.item i
                          where i.channel = c.channel and i.channel <> 0 and i.state = 2)
          and not exists (select from headrace.item i
                          where i.channel = c.channel and i.channel <> 0 and i.state = 0
                            and i.position is not null));
end
$$;

-- Which channels have nothing in line. has_dead_rows: there may be many that cannot be removed yet,
-- but hardly any behind the last place that was taken.
create function headrace.empty_channels(channels integer[], has_dead_rows boolean)
returns integer[] language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
    if has_dead_rows then
        channels := array(
            select c.channel from unnest(channels) as c (channel)
            left join lateral (
                select f.last_rank, f.last_position from headrace.ready f
                where f.channel = c.channel
            ) r on true
            where not exists (
                select from headrace.item i
                where i.channel = c.channel and i.channel <> 0 and i.state = 1
                  and (i.rank, i.position) > (r.last_rank, r.last_position)));
    end if;
    return array(
        select c.channel from unnest(channels) as c (channel)
        where not exists (select from headrace.item i
                          where i.channel = c.channel and i.channel <> 0 and i.state = 1));
end
$$;

-- Take channels that have nothing in line out of the turns, and let those have a new turn that have
-- something after all. Who puts something there holds the channel: so it is locked first, and looked
-- at again then.
create function headrace.retire_channels(channels integer[]) returns void language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
    free integer[];
    gone integer[];
begin
    if cardinality(channels) = 0 then
        return;
    end if;
    free := array(
        select c.id from headrace.channel c where c.id = any(channels) for update skip locked);
    with removed as (
        delete from headrace.ready where channel = any(array(
            select r.channel from headrace.ready r
            where r.channel = any(free)
              and not exists (select from headrace.item i
                              where i.channel = r.channel and i.channel <> 0 and i.state = 1)
            for update skip locked))
        returning channel
    )
    select array_agg(r.channel) into gone from removed r;
    if coalesce(cardinality(gone), 0) < cardinality(channels) then
        update headrace.ready set turn = nextval('headrace.turn')
        where channel = any(array(
            select r.channel from headrace.ready r
            where r.channel = any(channels) and r.channel <> all(coalesce(gone, '{}'))
            for no key update skip locked));
    end if;
end
$$;

-- Channels of which it is not known what the rules of a version say, by id and name: of some, and of
-- those that come next behind a turn.
create function headrace.unbound_channels(
    queue_id integer, selection_id integer, channels integer[], seen bigint, rule_version integer
) returns text language plpgsql as $$
begin
    return (
        select string_agg(c.id || E'\x1f' || c.key_values, E'\x1e')
        from (
            select u.id from unnest(channels) as u (id)
            union
            select n.channel
            from (
                select 0 as id where selection_id is null
                union all
                select k.id from headrace.lane k
                where k.queue = queue_id
                  and (selection_id is null or k.selections like '%,' || selection_id || ',%')
            ) l
            cross join lateral (
                select f.channel from headrace.ready f
                where f.queue = queue_id and f.lane = l.id and f.turn > seen
                order by f.turn limit 200
            ) n
        ) u
        cross join lateral (
            select h.id, h.key_values from headrace.channel h
            where h.id = u.id
              and (h.rules < rule_version
                   or exists (select from unnest(h.counted) as k (total)
                              where not exists (select from headrace.bucket b
                                                where b.id = k.total)))
        ) c);
end
$$;
