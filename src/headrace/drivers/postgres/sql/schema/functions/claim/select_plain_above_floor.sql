-- Select and lock the first items in no channel: those before the floor by their priority, those from the
-- floor on, and, if that is not enough, those below it.
create function headrace.select_plain_above_floor(
    queue_id integer, wanted integer, floor_rank integer, floor_position bigint
) returns tid[] language plpgsql as $$
declare
    chosen tid[];
    more tid[];
begin
    chosen := array(
        select i.ctid from headrace.item i
        where i.queue = queue_id and i.state = 1 and i.channel = 0 and i.rank < floor_rank
        order by i.rank, i.position limit wanted
        for no key update skip locked);
    if cardinality(chosen) < wanted then
        more := array(
            select i.ctid from headrace.item i
            where i.queue = queue_id and i.state = 1 and i.channel = 0
              and i.rank = floor_rank and i.position >= floor_position
            order by i.rank, i.position limit wanted - cardinality(chosen)
            for no key update skip locked);
        chosen := chosen || more;
    end if;
    if cardinality(chosen) < wanted then
        more := array(
            select i.ctid from headrace.item i
            where i.queue = queue_id and i.state = 1 and i.channel = 0
              and i.ctid <> all(chosen)
            order by i.rank, i.position limit wanted - cardinality(chosen)
            for no key update skip locked);
        chosen := chosen || more;
    end if;
    return chosen;
end
$$;
