-- uses: prelude parts
-- keys: mixtures scoring_errors counts
-- args: label payload token point kernels channel experiment

-- Publishes the mixture by one metric, made of `parts`. point: what charts keep of it, '' for nothing. It is stored as
-- "<made> <parts> <payload>": `made` is a name that no other mixture has, which the facts of the metric hold, too.
-- Answers 1 if this is now the mixture, 0 if one of a later position exists.
-- Picks are made from the mixture of the primary metric where this is the goal: only then it changes the version, and is
-- announced.
local unit = unit_of('mixture', label)
if not holds(unit, token) then
  return superseded
end
local name, read, total = 'made_' .. unit, read_parts()

local standing = redis.call('HGET', mixtures, label)
if standing and standing:match('^%S+ (.*)$') == read .. ' ' .. payload then
  return {'ok', 1}
elseif standing and knows_more(standing:match('^%S+ (%S+)')) then
  return {'ok', 0}
elseif not (are_current(label) and fits(kernels, label)) then
  return outdated
end
local made = new_name(total)
redis.call('HSET', mixtures, label, made .. ' ' .. read .. ' ' .. payload)
redis.call('HSET', facts_of(label), name, made)
redis.call('HDEL', scoring_errors, unit)
keep_point(unit, read, total, point)
if label == '' and redis.call('HEXISTS', counts, 'mixture_growth') == 1 then
  changed()
  redis.call('PUBLISH', channel, string.format('%s 0 %d', experiment, total))
end
return {'ok', 1}
