-- uses: prelude
-- keys: generators estimates artefacts decision counts
-- args: payload basis_digest

-- Decides an experiment if this is the SHA-1 of what it is decided by, '' for anything: of its estimates, or where the
-- mixture is the goal, of the mixture's name. Answers 1 if this is the decision, 0 if another one was made first or
-- something else stands there by now.
local all = redis.call('HLEN', generators)
local growth, made = unpack(redis.call('HMGET', counts, 'mixture_growth', 'made_mixture'))
local standing, seqs = {}, {}
if growth then
  standing[1] = made or ''
  local parts = ',' .. ((redis.call('HGET', artefacts, 'mixture') or ''):match('^%S+ (%S+)') or '')
  for g = 0, all - 1 do
    seqs[g + 1] = parts:match(',' .. g .. ':(%d+):') or '0'
  end
else
  for g = 0, all - 1 do
    standing[g + 1] = redis.call('HGET', estimates, g) or ''
    seqs[g + 1] = standing[g + 1]:match('^%d+') or '0'
  end
end
local made_of = redis.sha1hex(table.concat(standing, '\n'))
if (basis_digest == '' or basis_digest == made_of) and redis.call('SETNX', decision, payload) == 1 then
  -- Up to which positions batches took part, for a retraction to know.
  redis.call('HSET', counts, 'decided', redis.sha1hex(payload) .. ' ' .. table.concat(seqs, ' '))
  changed()
end
return {'ok', redis.call('GET', decision) == payload and 1 or 0}
