-- Forget all lanes; others are put in their place.
DELETE FROM lane
