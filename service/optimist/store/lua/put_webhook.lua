-- uses: prelude
-- keys: webhook messages
-- args: record places*

-- Sets where the messages of the experiment go, '' for nowhere. Another webhook than before knows of no message yet: what
-- was noted at `places` is forgotten. Answers 1 if there was one before.
local before = redis.call('GET', webhook)
if before ~= record then
  redis.call('HDEL', messages, unpack(places))
end
if record == '' then
  redis.call('DEL', webhook)
else
  redis.call('SET', webhook, record)
end
return {'ok', before and 1 or 0}
