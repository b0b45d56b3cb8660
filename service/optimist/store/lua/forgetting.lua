-- uses: units
-- keys: estimates watched modes mixtures curve damaged

-- Drops what was made of batches that count no longer, or with kernels that are fixed anew.

-- What was made of generator `h` by one metric; of its curve the points from position `from` on.
local function forget_derived(h, label, from)
  local unit = unit_of(h, label)
  redis.call('HDEL', label == '' and estimates or watched, unit)
  redis.call('HDEL', facts_of(label), 'made_' .. unit)
  redis.call('HDEL', modes, unit)
  redis.call('HDEL', damaged, unit)
  local list = curve .. ':' .. unit
  local last = redis.call('LINDEX', list, -1)
  while last and tonumber(last:match('^%d+ (%d+)')) >= from do
    redis.call('RPOP', list)
    last = redis.call('LINDEX', list, -1)
  end
end

-- The mixture by one metric, and the points of its curve, that were made of batches of generator `h` from position
-- `from` on; all of them where it is 0.
local function forget_mixture(label, h, from)
  local function is_void(parts)
    local seq = (',' .. parts):match(',' .. h .. ':(%d+):')
    return from == 0 or seq and tonumber(seq) >= from
  end
  local unit = unit_of('mixture', label)
  local standing = redis.call('HGET', mixtures, label)
  if standing and is_void(standing:match('^%S+ (%S+)')) then
    redis.call('HDEL', mixtures, label)
    redis.call('HDEL', facts_of(label), 'made_' .. unit)
  end
  redis.call('HDEL', damaged, unit)
  local list = curve .. ':' .. unit
  local last = redis.call('LINDEX', list, -1)
  while last and is_void(last:match('^%d+ %d+ (%S+)')) do
    redis.call('RPOP', list)
    last = redis.call('LINDEX', list, -1)
  end
end
