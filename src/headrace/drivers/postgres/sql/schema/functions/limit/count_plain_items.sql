-- Count items of a queue that are in no channel as running. The error HR002 if counters have filled up
-- since they were read, or no longer exist.
create function headrace.count_plain_items(
    counted integer[], checked integer[], max_used bigint[], number integer
) returns void language plpgsql as $$
begin
    if headrace.lock_counters(counted) <> 'claimed'
       or headrace.free_slots(checked, max_used) < number then
        raise exception 'no free slots are left' using errcode = 'HR002';
    end if;
    update headrace.limit_counter set used = used + number where id = any(counted);
end
$$;
