-- uses: prelude picks
-- keys: picks terms
-- args: number reason nonce remembered

-- Ends a pick without a batch; idempotent. remembered: how many ended picks are remembered. nonce: the pick's, or ''
-- for whichever pick has the number.
local pick = redis.call('HGET', picks, number)
if not pick then
  return recall(number, '', nonce)
elseif nonce ~= '' and nonce_in(redis.call('HGET', terms, number)) ~= nonce then
  return lost(number)
end
if release(number, pick) then
  hand_back(pick)
end
conclude(number, '', reason, tonumber(remembered))
changed(pick:match('^%d+'))
return {'ok'}
