-- uses: prelude units
-- keys: generators labels artefacts decision counts
-- args: payload basis_digest token

-- Decides an experiment if this is the SHA-1 of what it is decided by, '' for anything: of the names of its estimates, or
-- where the mixture is the goal, of its name; and if `token` is the state token, '' for any. Answers 1 if this is the decision, 0 if another one was made first or
-- something else stands there by now.
local label = redis.call('LINDEX', labels, 0)
local mixture, names, seqs = unit_of('mixture', label), {}, {}
local parts = redis.call('HEXISTS', counts, 'mixture_growth') == 1
  and ',' .. (redis.call('HGET', artefacts, mixture .. ':parts') or '')
if parts then
  names[1] = redis.call('HGET', artefacts, mixture .. ':made') or ''
end
for g = 0, redis.call('HLEN', generators) - 1 do
  if parts then
    seqs[g + 1] = parts:match(',' .. g .. ':(%d+):') or '0'
  else
    seqs[g + 1] = '0'
    for _, deciding in ipairs(deciding_labels()) do
      local unit = unit_of(g, deciding)
      names[#names + 1] = fact(unit, 'made') or ''
      if tonumber(fact(unit, 'seq') or 0) > tonumber(seqs[g + 1]) then
        seqs[g + 1] = fact(unit, 'seq')
      end
    end
  end
end
local made_of = redis.sha1hex(table.concat(names, '\n'))
local is_meant = token == '' or token == redis.call('HGET', counts, 'state_token')
if is_meant and (basis_digest == '' or basis_digest == made_of) and redis.call('SETNX', decision, payload) == 1 then
  -- Up to which positions batches took part, for a retraction to know.
  redis.call('HSET', counts, 'decided', redis.sha1hex(payload) .. ' ' .. table.concat(seqs, ' '))
  changed()
end
return {'ok', redis.call('GET', decision) == payload and 1 or 0}
