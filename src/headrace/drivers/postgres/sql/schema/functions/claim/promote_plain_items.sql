-- headrace.promote_items for items in no channel.
create function headrace.promote_plain_items(queue_id integer, sign integer, moment bigint)
returns bigint language plpgsql as $$
declare
    promoted bigint := 0;
    moved bigint;
begin
    loop
        with due_now as materialized (
            select i.id from headrace.item i
            where i.queue = queue_id and i.state = 0 and i.next_execution <= moment
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
    return promoted;
end
$$;
