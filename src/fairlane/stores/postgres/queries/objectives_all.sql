-- The wait objectives that are set: tier, queue and tenant ('' stands for all), what is set as JSON.
SELECT tier, queue, tenant, body FROM fairlane.objective
