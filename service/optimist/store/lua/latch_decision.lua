-- uses: prelude
-- keys: generators estimates decision counts
-- args: payload estimates_digest

-- Decides an experiment if its estimates have this SHA-1, '' for any. Answers 1 if this is the decision, 0 if another
-- one was made first or the estimates are others.
local standing = {}
for g = 0, redis.call('HLEN', generators) - 1 do
  standing[g + 1] = redis.call('HGET', estimates, g) or ''
end
local made_of = redis.sha1hex(table.concat(standing, '\n'))
if (estimates_digest == '' or estimates_digest == made_of) and redis.call('SETNX', decision, payload) == 1 then
  -- Up to which positions batches took part, for a retraction to know.
  local seqs = {}
  for i, entry in ipairs(standing) do
    seqs[i] = entry:match('^%d+') or '0'
  end
  redis.call('HSET', counts, 'decided', redis.sha1hex(payload) .. ' ' .. table.concat(seqs, ' '))
  changed()
end
return {'ok', redis.call('GET', decision) == payload and 1 or 0}
