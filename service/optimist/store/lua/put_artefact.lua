-- uses: prelude parts curve
-- keys: artefacts counts
-- args: artefact unit label payload token point kernels channel experiment

-- Publishes what was made of `parts` under the claim of `unit`. point: what charts keep of it, '' for nothing. Answers 1
-- if this is now the artefact, 0 if one of a later position exists. Only what picks are made from changes the version,
-- and is announced.
--
-- `artefacts` holds <artefact>:made, a name that no other one has, :parts, and :payload. `newest_artefact` in `counts` is
-- the name of the last one that was published of all generators.
if not holds(unit, token) then
  return superseded
end
local read, total = read_parts()

local made_of = redis.call('HGET', artefacts, artefact .. ':parts')
if made_of == read and redis.call('HGET', artefacts, artefact .. ':payload') == payload then
  return {'ok', 1}
elseif made_of and knows_more(made_of) then
  return {'ok', 0}
elseif not (are_current(label) and fits(kernels, label)) then
  return outdated
end
local made = new_name(total)
redis.call('HSET', artefacts, artefact .. ':made', made, artefact .. ':parts', read, artefact .. ':payload', payload)
keep_point(artefact, total, point ~= '' and read .. ' ' .. point or '')
if unit:match('^%d') then -- it is of one generator
  return {'ok', 1}
end
forget_facts(unit, 'error')
redis.call('HSET', counts, 'newest_artefact', made)
local is_goal = artefact == unit_of('model', label)
  or artefact == unit_of('mixture', label) and redis.call('HEXISTS', counts, 'mixture_growth') == 1
if is_goal and decides(label) then
  changed()
  redis.call('PUBLISH', channel, string.format('%s 0 %d', experiment, total))
else
  note_later()
end
return {'ok', 1}
