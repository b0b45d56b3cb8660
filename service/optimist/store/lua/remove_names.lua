-- other keys: index
-- args: seconds names*(name since)

-- Removes names that were added to the index at `since`, if nobody added them again, and that was `seconds` ago or
-- more. A time further in the future than that means that the server's clock was set back: that name is removed, too.
local time = redis.call('TIME')
local latest = tonumber(time[1]) + tonumber(time[2]) / 1e6 - tonumber(seconds)
for _, entry in ipairs(names) do
  local since = tonumber(redis.call('ZSCORE', index, entry.name) or nil)
  if since and since == tonumber(entry.since) and (since <= latest or since > latest + 2 * seconds) then
    redis.call('ZREM', index, entry.name)
  end
end
return {'ok'}
