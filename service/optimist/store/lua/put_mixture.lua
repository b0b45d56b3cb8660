-- uses: prelude deriving
-- keys: mixtures damaged curve counts
-- args: label payload token point kernels channel experiment parts*(generator seq samples chain)

-- Publishes the mixture by one metric. parts: of each generator in it the log position, the samples up to there, and the
-- chained digest of the log there. point: what charts keep of it, '' for nothing. It is stored as "<made> <parts>
-- <payload>": `made` is a name that no other mixture has, which the facts of the metric hold, too, because a service
-- that knows of no mixtures deletes these along with the experiment; the parts are "<generator>:<seq>:<samples>" with
-- commas between. Answers 1 if this is now the mixture, 0 if one of a later position exists.
-- Picks are made from the mixture of the primary metric where this is the goal: only then it changes the version, and is
-- announced.
local unit = unit_of('mixture', label)
if not holds(unit, token) then
  return superseded
end
local name, total, texts = 'made_' .. unit, 0, {}
for i, part in ipairs(parts) do
  total = total + part.samples
  texts[i] = part.generator .. ':' .. part.seq .. ':' .. part.samples
end
local read = table.concat(texts, ',')

local made = redis.call('HGET', facts_of(label), name)
local standing = made and redis.call('HGET', mixtures, label)
if standing and standing == made .. ' ' .. read .. ' ' .. payload then
  return {'ok', 1}
elseif standing then
  local before = {}
  for g, seq in standing:match('^%S+ (%S+)'):gmatch('(%d+):(%d+):%d+') do
    before[g] = tonumber(seq)
  end
  for _, part in ipairs(parts) do
    if (before[part.generator] or 0) > tonumber(part.seq) then
      return {'ok', 0}
    end
  end
end

-- Whether a snapshot at this position was made of the same log, of which it may have taken the place.
local function stands_for(part)
  local chain = redis.call('HGET', facts_of(label), 'snapshot_chain_' .. unit_of(part.generator, label))
  return chain == part.seq .. ' ' .. part.chain
end

for _, part in ipairs(parts) do
  if is_void(part.generator, part.seq) or not (follows(part.generator, part.seq, part.chain) or stands_for(part)) then
    return outdated
  end
end
if not fits(kernels, label) then
  return outdated
end
made = string.format('%d:%.6f', total, now())
redis.call('HSET', mixtures, label, made .. ' ' .. read .. ' ' .. payload)
redis.call('HSET', facts_of(label), name, made)
redis.call('HDEL', damaged, unit)

-- A point is kept once the samples have grown by a 32nd, or are fewer because a generator was retired.
local points = curve .. ':' .. unit
local last = redis.call('LINDEX', points, -1)
local kept = last and tonumber(last:match('^%d+ (%d+)')) or 0
if point ~= '' and (total >= kept * (1 + 1 / 32) or total < kept) then
  redis.call('RPUSH', points, string.format('%s %d %s %s', redis.call('HGET', counts, 'told'), total, read, point))
end
if label == '' and redis.call('HEXISTS', counts, 'mixture_growth') == 1 then
  changed()
  redis.call('PUBLISH', channel, string.format('%s 0 %d', experiment, total))
end
return {'ok', 1}
