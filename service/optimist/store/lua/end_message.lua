-- uses: prelude
-- keys: messages
-- args: place token outcome seconds note

-- Notes how an attempt ended, if `token` still has the claim: 'sent', 'failed', or 'waits', for `seconds` until the next one.
local id, attempts, _, holder = (redis.call('HGET', messages, place) or ''):match('^(%w+)\twaits\t(%d+)\t([%d.]+)\t(%w+)\t')
if holder ~= token then
  return {'ok', 0}
end
redis.call('HSET', messages, place,
  table.concat({id, outcome, attempts, string.format('%.3f', now() + seconds), '', note}, '\t'))
return {'ok', 1}
