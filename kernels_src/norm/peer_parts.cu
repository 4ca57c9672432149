/*@kernel
name   = "peer_parts_{BACK}"
about  = """Parts of the statistics of each channel, merged and joined with those of all other GPUs, by \
            mailboxes that each of them has in its memory."""
BACK   = [0, 1]
params = ["const float* parts", "float* joined", "const float* rstd", "float* dscale", "float* dbias",
          "float alpha_param", "float beta_param", "int channels", "int splits", "int peers", "int rank",
          "int share", "int64_t patience", "Array<u64*, 32> boxes"]
block  = [128, 1, 1]
grid   = ["ceil_div(channels, 4)", 1, 1]
needs  = ["1 <= channels < 2**31 - 128", "1 <= splits", "1 <= peers <= 32", "0 <= rank < peers", "1 <= share"]
problems = [
    """{'batch_norm_bwd' if BACK else 'batch_norm_training'} x=9x5x31x31:f16@nhwc \
       {'dy=9x5x31x31:f16@nhwc' if BACK else ''} scale=1x5x1x1:f32 \
       {'mean' if BACK else 'bias'}=1x5x1x1:f32 \
       {'rstd=1x5x1x1:f32' if BACK else ''} peer_stats=60:f32+60:f32+60:f32 \
       {'dx' if BACK else 'y'}=9x5x31x31:f16@nhwc \
       {'dscale' if BACK else 'mean'}=1x5x1x1:f32 \
       {'dbias' if BACK else 'rstd'}=1x5x1x1:f32 rank=1"""]
@*/
// A warp a channel: it merges the parts of all splits in a fixed order, then its first lane exchanges. What
// it leaves is one part, as the next launch reads them.
//   forward   of `Stat`; the count in it is that of all GPUs
//   backward  of `GradSum`, times own over all numbers, as the next launch divides by the own ones. dscale
//             and dbias, the averages of all GPUs' gradients, are stored here
#include "grad.cuh"
#include "mail.cuh"

extern "C" __global__ __launch_bounds__(128) void KERNEL(
    const float* parts, float* joined, const float* rstd, float* dscale, float* dbias, float alpha_param,
    float beta_param, int channels, int splits, int peers, int rank, int share, i64 patience,
    Array<u64*, 32> boxes) {
    const Team<128> team(4);
    const int c = blockIdx.x * 4 + team.column;
    const i64 mine = i64(min(c, channels - 1)) * splits;
    const Peers all_peers = {channels, peers, rank, share, patience};
    if constexpr (!BACK) {
        const Stat<float> own = team.merged(reinterpret_cast<const Stat<float>*>(parts) + mine, splits, 1);
        if (!team.leads || c >= channels) return;
        const Joined all = exchanged<true>(all_peers, boxes, c, own.mean, own.m2 / share);
        reinterpret_cast<Stat<float>*>(joined)[c] = {float(all.total), float(all.first),
                                                     float(all.second * all.total)};
    } else {
        const GradSum<float> own =
            team.merged(reinterpret_cast<const GradSum<float>*>(parts) + mine, splits, 1);
        if (!team.leads || c >= channels) return;
        const float slope = rstd[c];
        const Joined all = exchanged<false>(all_peers, boxes, c, own.sum, slope * own.dot);
        const double part = share / all.total;
        reinterpret_cast<GradSum<float>*>(joined)[c] = {
            float(all.first * part), slope == 0 ? 0.0f : float(all.second / slope * part)};
        dscale[c] = blend(alpha_param, float(all.second / peers), beta_param, dscale + c);
        dbias[c] = blend(alpha_param, float(all.first / peers), beta_param, dbias + c);
    }
}
