-- uses: prelude settling opening reading
-- keys: counts
-- args: channel experiment remembered wants_state milliseconds batches*(number digest rows body nonce measures)

-- Settles batches, then opens picks where `groups` names any. Where `wants_state` is 1 and no picks were opened, it
-- answers the state; what has changed of it, where the caller has read it before; or 'all' where that caller must read
-- everything again. With `who` given it then takes the opening lock, for `milliseconds`, and answers no state while another
-- has it; after a repeat, which needs none, it takes none.
-- remembered: how many ended picks are remembered.
-- Answers the state tokens before and after, 1 if the batches changed anything that the caller cannot foresee (else 0), the
-- answer of each batch, that of the opening, and the state.
local before = redis.call('HGET', counts, 'state_token') or ''
local answers, opened, state = {}, false, false
for i, batch in ipairs(batches) do
  answers[i] = settle(batch.number, batch.digest, batch.rows, batch.body, batch.nonce, batch.measures, channel,
    experiment, remembered)
end
if #groups > 0 then
  opened = open(before, was_unforeseen)
end
local outcome = opened and opened[2]
if wants_state == '1' and outcome ~= 'opened' then
  if who == '' or outcome == 'repeated' or take_opening_lock(who, milliseconds) then
    state = read_changes(remembered, false) or since == '' and read_state(remembered, false, true) or {'all'}
  end
end
return {'ok', before, state_token or before, was_unforeseen and 1 or 0, answers, opened, state}
