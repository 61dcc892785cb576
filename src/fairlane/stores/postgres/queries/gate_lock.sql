-- Wait for the gate and hold it to the end of the transaction. It takes no snapshot.
LOCK TABLE fairlane.gate_keeper IN EXCLUSIVE MODE
