-- uses: prelude retracted told audits
-- keys: log counts generators decision audit_leases audit_records
-- args: id rater comment takes_back most most_bytes batch channel experiment scores*(generator score)

-- Notes what a rater says of the samples of an audit, or with takes_back '1' that they said nothing. generator: '' where
-- scores stand in the order in which samples were shown. most, most_bytes: records of an experiment, and bytes of its
-- comments. batch: after how many answers of a generator an estimate is due. What counts of a sample, the mean of all
-- raters, is an entry of the log of its generator, which counts no rows. Answers how many audits are answered, 1 if a
-- decision can rest on it, and 1 if all was said before.
local audit = audit_of(id)
local own = audit and rater_of(audit, rater)
if not own then
  return {'not-found', audit and 'audit ' .. id .. ' was never given to this rater' or 'there is no audit ' .. id}
end
local can_count = redis.call('EXISTS', decision) == 0 and 1 or 0

local function loses(g)
  return redis.call('HEXISTS', counts, g .. ':voids') == 1
end

-- Whether samples of some generator were retracted, which leave what raters were given.
local function loses_any()
  for g = 0, redis.call('HLEN', generators) - 1 do
    if loses(g) then
      return true
    end
  end
  return false
end

local lost = {'retracted', 'a sample of audit ' .. id .. ' was retracted: ask for audits again'}
local said = {}
if takes_back == '1' then
  comment = ''
  for _, pair in ipairs(own.given) do
    said[pair.g] = ''
  end
elseif scores[1].generator == '' then
  if #scores > #own.given and loses_any() then
    return lost
  elseif #scores ~= #own.given then
    return {'refused', 'scores: expected ' .. #own.given .. ', one for each sample that was shown, got ' .. #scores}
  end
  for i, pair in ipairs(own.given) do
    said[pair.g] = scores[i].score
  end
else
  local shown = {}
  for _, pair in ipairs(own.given) do
    shown[pair.g] = true
  end
  for _, one in ipairs(scores) do
    if not shown[one.generator] and loses(one.generator) then
      return lost
    elseif not shown[one.generator] then
      return {'refused', 'scores: audit ' .. id .. ' shows no sample of '
        .. (redis.call('HGET', generators, one.generator) or 'that generator')}
    end
    said[one.generator] = one.score
  end
end

local changed_ones = {}
for _, pair in ipairs(own.given) do
  local score = said[pair.g]
  if score and score ~= pair.score and (score == '' or pair.score == '' or tonumber(score) ~= tonumber(pair.score)) then
    changed_ones[#changed_ones + 1] = pair
    if score ~= '' and #untold(pair.g, audit.index, 1) > 0 then
      return lost
    end
  end
end
local digest = comment == '' and '' or redis.sha1hex(comment)
if takes_back ~= '1' and comment == '' then
  digest = own.comment -- an answer without one leaves it as it is
end
if #changed_ones == 0 and digest == own.comment then
  return {'ok', answered(), can_count}
end
local commented = tonumber(redis.call('HGET', counts, 'comment_bytes') or 0) + #comment
if redis.call('XLEN', audit_records) + #changed_ones >= tonumber(most) then
  return {'conflict', 'people have said as much as an experiment keeps: ' .. most .. ' scores and corrections'}
elseif comment ~= '' and commented > tonumber(most_bytes) then
  return {'conflict', 'comment: expected none, as comments of the experiment have ' .. most_bytes .. ' bytes: send the scores alone'}
end

-- The first write is the one that Redis refuses when memory is full, so that it refuses all or nothing.
redis.call('HSET', counts, 'comment_bytes', commented)
local was_answered, rest = is_answered(audit), comment
own.comment = digest
for _, pair in ipairs(changed_ones) do
  local g = pair.g
  local before = mean_of(audit, g)
  pair.score = said[g]
  local after = mean_of(audit, g)
  local seq, bytes, chain, scored, samples = unpack(redis.call('HMGET', counts, g .. ':seq', g .. ':bytes', 'chain_' .. g,
    g .. ':scored', g .. ':samples'))
  seq, scored = seq + 1, (scored or 0) + (after and 1 or 0) - (before and 1 or 0)
  local due = (scored % batch == 0 and tonumber(samples) >= 2) and 1 or 0
  local body = string.format('{"audit":%d,"weight":%s,"score":%s,"due":%d}', audit.index, audit.weight, after or 'null', due)
  local own_digest = redis.sha1hex(body)
  chain = redis.sha1hex(chain:match(' (%x*)$') .. own_digest)
  bytes = string.format('%.0f', bytes + #body)
  redis.call('XADD', log .. ':' .. g, seq .. '-0', 'answers', 1, 'digest', own_digest, 'chain', chain, 'bytes', bytes, 'body', body)
  redis.call('HSET', counts, g .. ':seq', seq, g .. ':bytes', bytes, 'chain_' .. g, seq .. ' ' .. chain, g .. ':scored', scored)
  note_said('answer', audit, rater, g, seq, pair.score, due, rest)
  rest = ''
  if due == 1 then
    redis.call('HSET', counts, g .. ':due_seq', seq)
    redis.call('PUBLISH', channel, experiment .. ' ' .. g .. ' ' .. seq)
  end
  changed(g)
end
if #changed_ones == 0 then
  note_said('comment', audit, rater, own.given[1].g, 0, own.given[1].score, 0, rest)
  touch()
end
put_audit(audit)
count_answered(was_answered, audit)
if has_answer(own) then
  for _, lease in ipairs(redis.call('ZRANGE', audit_leases, 0, -1)) do
    if lease:match('^(.*)\t') == id .. '\t' .. rater then
      redis.call('ZREM', audit_leases, lease)
    end
  end
end
return {'ok', answered(), can_count}
