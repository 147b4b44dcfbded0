"""What devices did: kernels, copies, calls, how busy they were and why not."""
