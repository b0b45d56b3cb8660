-- ARGV: payload, SHA-1 of the estimates that it was made of, '' for any. Answers 1 if this is the decision, 0 if another
-- one was made first, or other estimates stand by now.
local standing = {}
for g = 0, redis.call('HLEN', generators) - 1 do
  standing[g + 1] = redis.call('HGET', estimates, g) or ''
end
local made_of = redis.sha1hex(table.concat(standing, '\n'))
if (ARGV[2] == '' or ARGV[2] == made_of) and redis.call('SETNX', decision, ARGV[1]) == 1 then
  changed()
end
return {'ok', redis.call('GET', decision) == ARGV[1] and 1 or 0}
