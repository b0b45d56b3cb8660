-- ARGV: generator, owner, seconds. Answers {token, deadline, 1 if another owner's had
-- run out}, or nothing where another owner holds the claim.
local g, owner, seconds = unpack(ARGV)
if redis.call('HEXISTS', generators, g) == 0 then
  return {'not-found', 'there is no such generator'}
end
local number, deadline, holder = (redis.call('HGET', claims, g) or ''):match('^(%d+) (%S+) (.*)$')
if holder and holder ~= owner and tonumber(deadline) > now() then
  return {'ok'}
end
if holder ~= owner then
  number = string.format('%d', redis.call('HINCRBY', counts, 'claims', 1))
end
deadline = string.format('%.6f', now() + seconds)
redis.call('HSET', claims, g, table.concat({number, deadline, owner}, ' '))
return {'ok', instance .. ':' .. number, deadline, holder and holder ~= owner and 1 or 0}
