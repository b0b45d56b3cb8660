-- uses: prelude parts
-- keys: artefacts scoring_errors counts
-- args: artefact unit label payload token point kernels channel experiment

-- Publishes what was made of `parts` under the claim of `unit`. point: what charts keep of it, '' for nothing. `artefacts`
-- holds two fields of each, since readers of the state need no large payload:
--   <artefact>       "<made> <parts>"; `made` is a name that no other one has, which `counts` has as made_<artefact> where
--                    it is by the primary metric, and not of one generator
--   <artefact> body  the payload
-- Answers 1 if this is now the artefact, 0 if one of a later position exists.
-- Only what picks are made from changes the version, and is announced.
if not holds(unit, token) then
  return superseded
end
local read, total = read_parts()
local of_one = unit:match('^%d') ~= nil

local standing = redis.call('HGET', artefacts, artefact)
local made_of = standing and standing:match('^%S+ (%S+)$')
if made_of == read and redis.call('HGET', artefacts, artefact .. ' body') == payload then
  return {'ok', 1}
elseif made_of and knows_more(made_of) then
  return {'ok', 0}
elseif not (are_current(label) and fits(kernels, label)) then
  return outdated
end
local made = new_name(total)
redis.call('HSET', artefacts, artefact, made .. ' ' .. read, artefact .. ' body', payload)
keep_point(artefact, read, total, point)
if of_one then
  return {'ok', 1}
end
redis.call('HDEL', scoring_errors, unit)
if label == '' then
  redis.call('HSET', counts, 'made_' .. artefact, made)
end
if artefact == 'model' or artefact == 'mixture' and redis.call('HEXISTS', counts, 'mixture_growth') == 1 then
  changed()
  redis.call('PUBLISH', channel, string.format('%s 0 %d', experiment, total))
end
return {'ok', 1}
