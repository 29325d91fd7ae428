#!/usr/bin/env python3
"""torchrun with the older store."""

import older_store

if __name__ == "__main__":
    older_store.use()
    from torch.distributed.run import main

    main()
