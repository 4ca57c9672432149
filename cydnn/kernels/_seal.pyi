SEAL: str
